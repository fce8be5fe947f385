"""The numbers that fits decide by: where each comes from, or what was measured to choose it.

`python -m benchmarks.fit_ablation` changes one of them, or switches off a rule, at a time.
"""

import numpy as np

EPS = float(np.finfo(np.float64).eps)

# --- What counts as nothing.
# Residuals, or noise, of so many rounding errors are 0.
EXACT = 32.0
# Below this part something does not matter: an offset as a part of the standard errors (Bates and
# Watts' criterion of a minimum), a parameter's component in a direction that the data do not see, a
# difference of description lengths in nats.
NEGLIGIBLE = 1e-3
# Columns that change by less than this, and residuals of a linear program below this part of its
# trust region, are as they were: the root of the rounding errors.
CONSTANT = 1e-8
# A direction of scaled parameters is unseen if the data change by less than this part of what they
# change along the best direction; in squares, by this times the number of parameters.
UNSEEN, UNSEEN_SQUARED = 1e-10, 1e-13
# A parameter is unseen if doubling it changes the data by less than so many rounding errors.
ROUNDINGS = 1e3
# Curvature below this part of the largest is none (a multiple of the errors of differences), slopes
# this close to a limit are at it; of second derivatives by JAX, so many rounding errors are none.
DEGENERATE, FLAT_HESSIAN = 1e-9, 1e4

# --- Steps.
# Moré's constants, which every implementation uses: a step is taken if it brings this much of the
# predicted decrease; the trust region shrinks below and grows above these.
ACCEPTED, POOR, GOOD = 1e-4, 0.25, 0.75
# Offsets to reach: on the way, and at a minimum. Rounding errors may be so many times as large.
ROUGH, TOL, BLUR = 1e-2, 1e-9, 8.0
# Most steps: of a stage on the way (or of Newton's method on one active set), and to a minimum.
ROUGH_STEPS, STEPS = 24, 400
NEAR_MINIMUM = {"tol": ROUGH, "max_steps": 200}
AT_MINIMUM = {"tol": TOL, "max_steps": STEPS}
# Most iterations of small fixed points: the damping, weights of linear parameters, the scale of a
# Student distribution, divisions of a step. They need not converge; two or three usually do.
INNER = 8
# A step may be longer than the trust region by this part of it.
DAMPING_ERROR = 0.1
# A fit that takes more steps follows a curved valley: its steps are bent as the valley is (geodesic
# acceleration, Transtrum and Sethna, 2012), by the second derivative along the step, from a point
# at this part of it; unless the correction is longer than this part of the step.
EASY, AHEAD, LONGEST = 6, 0.1, 0.375
# Full steps below this offset leave a constant part of it each: they are extrapolated, to at most
# so many times their length. (The first trust region of linear programs is as many scales.)
NEAR, EXTRAPOLATED = 0.1, 10.0
# So many steps in a row that leave more than this of the offset bring nothing any more.
PATIENCE, SLOW = 4, 0.95

# --- Robust stages.
# The redescending loss bends at the first multiple of the scale of all data, then at halves of that
# down to the second one of those that seem right; so often at most.
BENDS, FALLS = (6.0, 3.0), 12
# Least absolute deviations are smoothed below this part of the scale. (Of 28,800 curves with 5 to
# 35 % of the data wrong by 6 to 200 standard deviations of the noise, `fit_many` with 1, .25, .1
# and .03 finds parameters within a standard error in 17,100, 19,900, 20,200 and 20,300.)
SHARP = 0.1
# Where the redescending loss bends if outliers of a few standard deviations are to be found, in
# scales of all data. (Of the same curves 20,200 are right with .7, 1 and 1.5; 19,400 with 3; 19,200
# with 6 and then 1.5.)
SHARP_BEND = 1.0
# A scale that falls by less than this is found; it, or the set of inliers, is estimated so often.
STABLE, ROUNDS = 0.8, 6

# --- Outliers.
# The heavier tails. With 4 or 5 degrees of freedom none of NIST's data is taken for an outlier, and
# of data with a tenth wrong exactly those; with 8, or Gaussian tails alone, some inliers are.
FREEDOM = 5.0
# To be called an outlier, a datum must be e^2 times likelier as such.
ODDS = 2.0
# Within so many scales a residual is an inlier in any case.
ORDINARY = 3.5
# So many of the largest gaps between sizes of residuals are candidates for the limit.
GAPS = 8

# --- The search.
# Most variations of the start, and those of the first round.
STARTS, FIRST_ROUND = 288, 48
# One of so many variations, or fits to subsets, is followed: 48 of the last round find two peaks
# among 36 % outliers, where 12 do not.
FOLLOWED = 5
# Parameters are varied by factors up to these, in turn.
FACTORS = (1.1, 1.5, 4.0, 30.0)
# Subsets of the data that are fitted if all else fails.
SUBSETS = 40
# Fits with description lengths this close agree.
AGREE = 0.5
# So many agreeing fits convince; so many of the best candidates and of their rivals are followed to
# their minima; so many outliers are taken for inliers on trial.
FEW = 3
# A fit with more outliers than this share does not convince without further starts.
FEW_WRONG = 0.2
# Neighbouring residuals that are correlated by so many standard deviations are a reason for further
# starts; a correlation below the second is weak.
WEAKLY_CORRELATED, WEAK = 2.5, 0.5
# Least squares are plainly right if there are so many data (and three for each parameter), noise is
# below this part of their range, no residual is beyond so many scales, and Jarque and Bera's
# statistic of the residuals is below the first limit. (It is 15 and 16 for NIST's MGH17 and
# Nelson, whose data are right, and 56 for data of which 15 % are wrong, but within the range of the
# others.) Without the part of heavy tails it is below the second one: that a few residuals are
# large is common, but skewness or light tails show two clusters. (If 35 % of 60 data are moved to
# one side, it is 10; of MGH17 it is 3, of Nelson 1.)
ENOUGH, SMALL_NOISE, ORDINARY_PLAIN, NORMAL, ONE_CLUSTER = 12, 0.05, 4.0, 20.0, 6.0
# A datum with this leverage nearly determines a parameter alone.
HIGH_LEVERAGE = 0.95

# --- The verdict.
# A datum with this leverage determines a parameter alone: nothing checks it.
LEVERAGE = 0.99
# A fit is nearly as likely as the best if its description is longer by no more than this (odds of
# 1 in 20), and a different one if it is so many standard errors away.
NEARLY, APART = 3.0, 5.0
# Residuals whose neighbours are correlated by this follow a curve, which
# matters if they are above this part of the range of the data. (Of NIST's fits one is as bad,
# Kirby2, with residuals of a five-hundredth of the range.)
STRUCTURED, COARSE = 0.8, 0.01
# Outliers are allowed if the inliers agree better than by chance: numbers anywhere in the range of
# the data have a description of length 0, and one shorter by g has a probability below exp(-g).
CHANCE = 5.0
# More outliers close to the curve than chance has with this probability are too many, if their
# neighbours are correlated by so many standard deviations.
RARE, IN_LINE = 1e-4, 2.0
# Outliers on one side are crowded together if chance does that with this probability, among so many
# stretches for each datum that are as good as independent (of outliers at random places, a tenth
# to nearly half of 14 to 1,000 data, a half to a hundredth of the probability is found), of up
# to so many outliers. (Of 320 fits of models that lack a term, with up to 30 % gross errors, 207
# are doubted; with 1e-4, 188; without this rule, 88; of 240 fits of right models none.)
CROWDED, STRETCHES, CROWD = 1e-3, 3.0, 64
# Data are cut off at a limit if so many have that value, so many times as many as have any other,
# and their residuals are above this part of the noise.
AT_A_LIMIT, MORE, FLAT = 5, 3, 0.3
# Number of hold-out sets.
PARTS = 5
# Neighbouring residuals whose correlation is so many standard deviations are worth a remark, and a
# doubt in `fit_many`, which has one start. (Of 10,000 curves with a tenth of outliers, the right
# ones are below 3.3, and of 7 wrong ones that nothing else refuses 6 above 4.)
CORRELATED = 4.0
# Hall and Sheather's bandwidth is for intervals of this level.
BANDWIDTH_LEVEL = 0.95

# --- Chosen losses.
# Which part of what it promises a step of Newton's method must bring the conditions nearer.
GAIN = 0.1
# Beyond so many active data their slopes are found by an iteration instead of a decomposition.
MANY_ACTIVE = 200

# --- Many curves (`fit_many`).
# The offset at a minimum: the steps decide by products with the Jacobian, which lose half of the
# digits.
TOL_OF_MANY = 1e-6
# Damping at the start and where a lane gives up, relative to the diagonal.
FIRST_DAMPING, LAST_DAMPING = 1e-3, 1e12
# Steps between two looks at which lanes have ended: to pack them costs about as much as a step.
BLOCK = 8
# So many lanes are evaluated together: what they need stays in the cache. (Of 10,000 curves with
# 100 points, groups of 8, 32 and 64 take 1.03 to 1.08 times as long.)
CACHED = 16
# More lanes are fitted, and judged, in parts. (Parts of 512 and 2048 take longer.)
MANY_LANES = 1024
# So many lanes are judged by one call of a compiled program.
JUDGED = 256
# Up to so many parameters, each of the products with the Jacobian is a sum of its own, by BLAS. (Of
# 2 to 5 parameters an evaluation takes half as long; of 8 it takes longer, and so does compiling.)
FEW_COLUMNS = 5

# --- Many parameters (`Products`, `Sparse`).
# At the end parameters are off by no more than this part of their standard errors.
TOL_OF_LARGE = 1e-5
# Up to so many parameters the matrix of all covariances is formed: J'J by products of blocks, or
# columns of its inverse from a sparse factor. Beyond, variances are computed one by one on request.
MOST = 2000
# Accuracy and most iterations of conjugate gradients.
CG_TOL, CG_STEPS = 1e-7, 5000

# --- Sizes.
# Numbers that are held at a time. (Of 150,000 curves 1 << 25 takes 1.3 times as long and gives the
# same; a group is what a killed process loses. With 1 << 22, 10,000 curves of 100 points are two
# groups and take 1.1 to 1.2 times as long.)
TOGETHER = 1 << 23
# Lanes of the program for several, and from how many on it is called.
LANES_TOGETHER, LANES_ALONE = 16, 3
# So many models stay compiled, and with them whatever arrays they close over.
KEPT_PROGRAMS = 32
# So many parameters are listed in a summary.
LISTED = 100
