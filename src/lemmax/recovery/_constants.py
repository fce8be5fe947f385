"""The numbers that `recover` decides by, each with its derivation or the measurement behind it.

`python -m benchmarks.ablation` switches off the rules that they belong to, one at a time; its table
is in docs/recover.md.
"""

# --- Zero.
# A residual is a rounding error below this many units of rounding of the data. The largest one may
# exceed the median by the second factor.
ROUNDING, LARGEST_ROUNDING = 256, 32
# The smallest relative gain of the observations on a direction that counts as observed.
LEAST_GAIN = 1e-6

# --- Steps (`_refine`).
# LMM is checked after this many steps (prox-linear after each), and stopped after the second number
# of checks. The second number also limits rounds and conjugate gradients, which end by themselves.
STEPS_OF_LMM, LOOKS = 20, 40
# Inner iterations of a prox-linear step; more change nothing where a solution is found.
INNER_STEPS = 1000
# Progress: the decrease of the value in three checks, relative to the loss of the bulk.
LEAST_DECREASE = 1e-3
# A descent ends where the median residual is this part of the data. With B, least squares converge
# quadratically from there; at 1e-3 superfluous terms are not always recognised, which costs up to
# six times as much. Without B, LMM goes on, faster without superfluous terms.
NEAR, NEAR_WITHOUT_B = 1e-4, 1e-2
# Rounds of least squares, continued while each gains a tenth; the smallest damping.
ROUNDS, LEAST_DAMPING = 12, 1e-14
# Multiplications up to which B, the derivative of the observations, is formed. PSD sensing from
# 1,000 measurements: 30 x 30 of rank 5 is below; 100 x 100 (6e9) takes 50 s with B, 1 s without.
LARGEST_B = 3e9

# --- Ranks (`_select`, `_propose`).
# A fit goes through as many observations as it has degrees of freedom, by construction. This many
# more, or this share more, are not chance.
SPARE, SPARE_SHARE = 5, 0.05
# With noise more: from fewer its level is so badly known that errors above 3 times the expected one
# are more frequent than 1 in 1000 (by the law of F).
SPARE_OF_NOISE = 8
# Up to this rank all lower ranks are fitted; above, a geometric sequence.
ALL_RANKS = 12
# Terms smaller than the previous one by this factor may be superfluous; the fit without them is
# tried first, which saves a fifth of the time.
GAP = 3.0

# --- Noise (`_select`).
# The largest residual of the bulk, in standard deviations; also the largest error of a prediction
# from the other observations, in its own standard deviations.
BULK = 3.0

# --- The certificate.
# The largest relative errors that are certified: of exact and of noisy data.
EXACT_ERROR, NOISY_ERROR = 1e-6, 0.1
# The largest expected number of accidents that explain as much. Only one of 1000 certified errors
# may be far above what is expected.
CHANCE = 1e-3
# If more than this share of the data is zero, at most this share may be outliers.
MANY_ZEROS = 0.1
# With this leverage a row has a term for itself, which explains whatever is in it.
LONELY = 0.9
# Fits through as few entries of a row as there are terms: all, or this many random ones.
DRAWS = 500
# Random signs of the residuals with which remaining terms are compared: a test at the level 1/20.
FLIPS = 19

# --- Sizes.
# Numbers in an array that is formed from a list, residuals under all random signs, and operations
# for all singular values of a matrix; of larger ones the second number of values.
LARGE, FEW = 1e7, 10
