# glmer on binomial cells: Rscript lme4.R FOLDER (see r_scripts.py).
suppressMessages(library(lme4))
setwd(commandArgs(trailingOnly = TRUE)[1])
cells <- read.csv("cells.csv")
settings <- read.csv("settings.csv", stringsAsFactors = FALSE)
groups <- grep("^group", names(cells), value = TRUE)
cells[groups] <- lapply(cells[groups], factor)

warned <- character(0)
seconds <- system.time(
  fit <- withCallingHandlers(
    glmer(as.formula(settings$formula), data = cells, family = binomial),
    warning = function(w) {
      warned <<- c(warned, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
)[["elapsed"]]

sds <- sapply(groups, function(g) attr(VarCorr(fit)[[g]], "stddev")[["(Intercept)"]])
numbers <- data.frame(mu = fixef(fit)[["(Intercept)"]], t(sds))
write.csv(numbers, "numbers.csv", row.names = FALSE)
facts <- data.frame(
  seconds = seconds,
  version = as.character(packageVersion("lme4")),
  remark = paste(unique(substr(warned, 1, 80)), collapse = "; ")
)
write.csv(facts, "facts.csv", row.names = FALSE)
