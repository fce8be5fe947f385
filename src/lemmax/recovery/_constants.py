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
# LMM is looked at after so many steps, and runs for so many looks at most; prox-linear steps, each
# a convex problem, are looked at one by one.
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
# shrink to a quarter; tries of a shorter step; iterations of conjugate gradients where the normal
# equations are not formed; least damping.
ROUNDS, TRIES, CG_STEPS, LEAST_DAMPING = 12, 5, 40, 1e-14
# The derivative B of the observations is formed up to so many multiplications, and up to this share
# of the memory. (PSD sensing from 1,000 measurements, a tenth of them wrong: 30 x 30 of rank 5 is
# below; of 100 x 100 with 6e9 prox-linear steps took 50 s, LMM a second.)
LARGEST_B, SHARE_OF_MEMORY = 3e9, 1 / 8

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
# The median of |z| of a standard Gaussian, and the size beyond which a residual is none of one.
MEDIAN_OF_A_GAUSSIAN, BULK = 0.6745, 3.0

# --- The certificate.
HALF = 0.5
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
# One of so many parts of the data is kept aside, as often as it takes to have so many predictions;
# one with an error of so many times the noise says nothing.
FOLDS, ENOUGH_HIDDEN, VAGUE = 5, 200, 3.0
# The variance of predictions of measurements, per degree of freedom and observation.
VARIANCE = 1.5
# Residuals under so many random signs are looked at, above which a term must stand out by this
# factor. (36 fits of PSD sensing: .5 to .75 where nothing was left over, 1.4 to 3.6 where a term
# was.) Of many residuals the largest singular value hardly varies, and fewer signs do.
FLIPS, FEW_FLIPS, MANY_RESIDUALS, STANDS_OUT = 19, 3, 100_000, 1.2
# Of Gaussian residuals the root mean square is 1.5 times the median; with this, they are not.
HEAVY_TAILS = 3.0

# --- Sizes up to which something is computed in full.
# An array that is formed from a list of its entries.
LARGE = 1e7
# Tangents of observed entries that are looked at one by one: parameters, and their product with the
# entries of the point.
FEW_PARAMETERS, SMALL = 600, 3e6
# Rows of a matrix whose singular values are all computed; of larger ones so many.
SHORT, FEW = 500, 10
# The typical size is read off so many data: to sort a million takes longer than a step.
SAMPLE = 1 << 16
# Data whose exponents are within this part of the possible ones need no other unit.
HARMLESS = 1 / 16
