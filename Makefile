# `make demo` and `make test` need nothing but a Python >= 3.12: each makes .venv when it must.

BIN := .venv/bin
# Compiled tests are kept, also where the shell says otherwise: to compile them all takes seconds.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

.PHONY: help demo kernels test slow notebook lint format readme ci bench environment pins clean

help:
	@echo "make demo      install into .venv and run the demonstration"
	@echo "make test      install into .venv and run the default tests"
	@echo "make slow      every test, with the slow ones and the notebooks"
	@echo "make notebook  only the notebooks"
	@echo "make lint      formatter, linter, types, import directions"
	@echo "make format    mend what the formatter and the linter can"
	@echo "make readme    run the code blocks of README and docs"
	@echo "make ci        what continuous integration runs"
	@echo "make bench     the benchmarks"
	@echo "make pins      write constraints.txt from .venv"
	@echo "make clean     remove .venv and the caches"

environment:
	@sh tools/make_environment.sh test,dev,inspect

demo: environment
	$(BIN)/gstudy demo

# Compiled once, two halves at a time, before every process of the tests would compile them all.
kernels: environment
	@$(BIN)/python -c "import gstudy.model.compiled" & \
	$(BIN)/python -c "import gstudy.model.one_way_compiled, gstudy.model.own_compiled" & \
	wait

# The tests of a file share fits, so that files are given to processes whole; in the order of their
# names, which ends with the examples of many short modules, so that no process waits for another.
test: kernels
	$(PYTEST) -n auto --dist loadfile --no-loadscope-reorder

slow: environment
	$(PYTEST) -m ""

notebook: environment
	$(PYTEST) -m notebook

lint: environment
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: environment
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

readme: environment
	$(BIN)/python tools/check_readme.py README.md
	$(BIN)/python tools/check_readme.py docs/study-file.md
	$(BIN)/python tools/check_readme.py docs/studies.md
	$(BIN)/python tools/check_readme.py docs/logs.md
	$(BIN)/python tools/check_readme.py docs/clusters.md
	$(BIN)/python tools/check_readme.py docs/designs.md

ci:
	bash .ci/run

bench:
	@sh tools/make_environment.sh test,dev,inspect,bench
	$(BIN)/python -m benchmarks

pins:
	@sh tools/make_environment.sh test,dev,inspect,bench
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
