# stan_glmer on binomial cells: Rscript rstanarm.R FOLDER (see r_scripts.py).
suppressMessages(library(rstanarm))
setwd(commandArgs(trailingOnly = TRUE)[1])
cells <- read.csv("cells.csv")
settings <- read.csv("settings.csv", stringsAsFactors = FALSE)
numbers_in <- function(text) as.numeric(strsplit(as.character(text), " ")[[1]])
groups <- grep("^group", names(cells), value = TRUE)
columns <- grep("^x[0-9]+$", names(cells), value = TRUE)
cells[groups] <- lapply(cells[groups], factor)
formula <- as.formula(settings$formula)

# Its terms are ordered by their numbers of levels, not as the formula has them.
order <- names(lme4::glFormula(formula, data = cells, family = binomial)$reTrms$cnms)
scale <- numbers_in(settings$sd_scales)[match(order, groups)]
prior <- if (length(columns)) {
  normal(0, numbers_in(settings$sigmas), autoscale = FALSE)
} else {
  normal()
}
seconds <- system.time(
  fit <- suppressWarnings(stan_glmer(
    formula,
    data = cells,
    family = binomial,
    prior = prior,
    prior_intercept = normal(settings$mu, settings$sigma, autoscale = FALSE),
    prior_covariance = decov(shape = 1, scale = scale),
    chains = settings$chains,
    cores = settings$cores,
    iter = settings$tune + settings$draws,
    warmup = settings$tune,
    seed = settings$seed,
    refresh = 0
  ))
)[["elapsed"]]

# Iterations, chains, parameters; written chain after chain.
names_of_sds <- sprintf("Sigma[%s:(Intercept),(Intercept)]", groups)
draws <- as.array(fit, pars = c("(Intercept)", columns, names_of_sds))
numbers <- as.data.frame(matrix(draws, ncol = dim(draws)[3]))
names(numbers) <- c("mu", columns, groups)
numbers[groups] <- sqrt(numbers[groups])
write.csv(numbers, "numbers.csv", row.names = FALSE)
facts <- data.frame(
  seconds = seconds,
  version = as.character(packageVersion("rstanarm")),
  divergences = rstan::get_num_divergent(fit$stanfit)
)
write.csv(facts, "facts.csv", row.names = FALSE)
