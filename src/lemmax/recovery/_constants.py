"""The numbers that `recover` decides by: where each comes from, or what was measured to choose it.

`python -m benchmarks.ablation` switches off the rules that they belong to, one at a time.
"""

import numpy as np

# --- What counts as zero.
# Residuals of most observations below this many rounding errors of the data: as good as zero. The
# largest residual that still is a rounding error, if the typical one is, may be larger.
ROUNDING, LARGEST_ROUNDING = 256, 32
# A direction with less of the largest gain than this is not seen; in squares, its square.
LEAST_GAIN = 1e-6

# --- Steps (`_refine`).
# LMM is looked at after so many steps; prox-linear steps, each a convex problem, one by one. Loops
# that usually end by themselves (looks, rounds, conjugate gradients) end after so many at most.
STEPS_OF_LMM, LOOKS = 20, 40
# Iterations of the inner solver of a prox-linear step: more are needed only where nothing is found.
INNER_STEPS = 1000
# In three looks together the value has to fall by this fraction of the loss of the bulk.
LEAST_DECREASE = 1e-3
# A descent ends where a typical residual is this part of the data, to look for superfluous terms.
# With B, least squares on the bulk converge quadratically from there. (At 1e-3 superfluous terms
# are not always told from the others, which may take six times as long.) Without B, LMM goes on by
# itself, faster without superfluous terms, which are therefore looked for sooner.
NEAR, NEAR_WITHOUT_B = 1e-4, 1e-2
# Least squares on the bulk: rounds, and more while each brings a tenth, as where superfluous terms
# shrink to a quarter; least damping.
ROUNDS, LEAST_DAMPING = 12, 1e-14
# The derivative B of the observations, or of all entries, is formed up to so many multiplications.
# (PSD sensing from 1,000 measurements, a tenth of them wrong: 30 x 30 of rank 5 is
# below; of 100 x 100 with 6e9 prox-linear steps took 50 s, LMM a second.)
LARGEST_B = 3e9

# --- Ranks (`_select`, `_propose`).
# A fit of so many degrees of freedom goes through as many observations by construction. So many
# more that it goes through cannot be chance.
SPARE, SPARE_SHARE = 5, 0.05
# Up to here every lower rank is refitted; beyond, fewer and fewer.
ALL_RANKS = 12
# Terms that are smaller by this factor than those before may be superfluous: least squares without
# them are tried first, since superfluous terms shrink slowly (a fifth of the time on the map).
GAP = 3.0
# With fewer observations per degree of freedom than this, lower ranks are tried before a noisy fit
# is believed: at the bound there are points that fit better than the truth.
ENOUGH = 2.5

# --- Noise (`_select`).
# The size beyond which a residual is none of a standard Gaussian. A prediction with an error of
# so many times the noise cannot tell an outlier.
BULK = 3.0

# --- The certificate.
# The relative errors up to which a fit is an answer: exact data, and noisy ones.
EXACT_ERROR, NOISY_ERROR = 1e-6, 0.1
# With more zeros than this share, less than it may be left unexplained: where factors have zeros,
# observations are not generic, and one term alone explains more than half of them.
MANY_ZEROS = 0.1
# The first quartile of sizes of Cauchy's law by the third (.28 for normal noise). Where a fit half
# explains two models it is below: no noise of one size has such tails.
CAUCHY = float(np.tan(np.pi / 8) / np.tan(3 * np.pi / 8))
# A row with a leverage above this has a component of its own, which fits whatever is in the row.
LONELY = 0.99
# So many other fits to a row are looked at: all through as few entries as there are terms, or some.
# Wrong entries that are not explained are looked at up to so many times the tolerance.
DRAWS, FARTHER = 500, 5.0
# One of so many parts of the data is kept aside, as often as it takes to have so many predictions.
FOLDS, ENOUGH_HIDDEN = 5, 200
# The variance of predictions of measurements, per degree of freedom and observation.
VARIANCE = 1.5
# Residuals under so many random signs are looked at, above which a term must stand out by this
# factor. (36 fits of PSD sensing: .5 to .75 where nothing was left over, 1.4 to 3.6 where a term
# was.)
FLIPS, STANDS_OUT = 19, 1.2

# --- Sizes up to which something is computed in full.
# An array that is formed from a list of its entries, and residuals with random signs in all.
LARGE = 1e7
# Rows of a matrix whose singular values are all computed; of larger ones so many.
SHORT, FEW = 500, 10
# The typical size is read off so many data: to sort a million takes longer than a step.
SAMPLE = 1 << 16
