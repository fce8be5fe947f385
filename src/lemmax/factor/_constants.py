"""The numbers that the factor model decides by: where each comes from, or what was measured.

`python -m benchmarks.league_ablation` changes them one at a time; `docs/league.md` has the result.
Units are those of standardised columns unless something else is said.
"""

import numpy as np
from scipy import special

# --- Statistics.
# The standard deviation of normal numbers, in units of their median distance from the median.
NORMAL = 1.4826
# The level whose interval sets the standard error, and its normal quantile.
LEVEL = 0.9
QUANTILE = float(special.ndtri((1 + LEVEL) / 2))
# A gain is significant from so many standard errors on. (Tables of pure noise, 200 of five shapes:
# the gain at held-out cells is positive in 44, and that significant in none.)
SURELY = 2.0
# At most half of the cells are wrong; rows and columns with more are doubtful, or were left behind;
# least squares go on while residuals are halved.
HALF = 0.5
# Fewer cells say nothing.
FEW = 8
# Rounds where two sides are found in turn, or starts are tried.
ROUNDS = 3

# --- Columns (`_columns`).
# Where more than half of a column is one number: the lower quartile of the other distances, times
# the root of their share, is near the standard deviation of a rare category, and spikes beyond the
# lower quartile do not move it.
RARE = 0.25
# A column is discrete if it has at most this share of different values.
DISCRETE = 0.5

# --- Priors of the model (`_sweeps`).
# Loadings have a prior variance that the data set, as if there were so many more columns with
# loadings of this precision: few columns cannot tell, and a precision that is too high loses weak
# components (league: error over the best peer .953 with 3 to 30 columns, .987 without).
PRIOR_COLUMNS, PRIOR_PRECISION = 10.0, 3.0
# The noise of a column is known as if from so many more cells of this variance. (League: ten times
# as much changes errors by .1 to .5 %; with less, exact tables are fitted more closely.)
PRIOR_CELLS, PRIOR_VARIANCE = 2.0, 5e-4
# The noise never gets smaller than this; standard errors this small are those of an exact table;
# the precision of the location of a column (flat up to .1).
SMALLEST_NOISE = 1e-6

# --- Wrong cells in the sweeps (`_sweeps`, `_tensor_sweeps`).
# Their share at the start, and its lower bound.
WRONG, FEWEST = 0.05, 1e-4
# Wrong cells are spread evenly over so many times their root mean square (to both sides), which is
# at least so many units of the column, and 5 units at the start; but over no more than the range of
# the cells, if they have one unit. (With the range of each column, errors of tables of less than 60
# rows are 1 % larger, and 6 instead of 3 instances of 111 tables have a coverage below 75 %.)
WIDTH, NARROWEST, AT_FIRST = 1.25, 3.0, 5.0
# Where no value is further out than that, as in ratings, noise that is not normal looks like
# wrong cells, and there are at most so many. (MovieLens 100k: error .908 as it is, .912 with 5 % of
# random ratings; .9065 and .912 with half of it; .918 and .924 without the bound, when all rows had
# the same noise.)
MOST_WITHIN = 0.04
# Logarithms of odds beyond this are certainties.
SURE = 50.0

# --- Sweeps (`_fit`, `tensor`).
# Sweeps at the most. (League, and 805 instances of other tables: with 80, errors are .05 and .04 %
# smaller, F1 of spikes is .002 smaller and .001 larger.) Fewer are enough if the last one did not
# change much. (A seed of the league and 798 instances of other tables: with 40, errors are .1 %
# smaller than with 50, F1 of spikes and coverage the same.)
SWEEPS, ENOUGH_SWEEPS = 50, 40
# A fit has converged when a sweep changes the table by this part of its noise; beyond the second
# part it has not, when the sweeps are used up.
STILL, MOVING = 3e-3, 0.1
# The fit without the held-out cells may end sooner: it tells the rank and the errors. (League: a
# fifth fewer sweeps, errors change by .2 %. With three times as much, surplus components of lists
# are chosen.)
NEARLY_STILL = 1e-2
# Cells are clipped here for the start.
START_CLIPPED = 2.5
# Rounds of weights and scores for rows whose columns are known; in the course of them the variance
# of the components counts as noise, down to this share.
ROW_ROUNDS, LAST_SHARE = 12, 1e-6

# --- The hold-out set and the rank (`_rank`, `_held_out`).
# The share of cells that are held out to choose the rank and to measure errors, and how many are
# enough.
ASIDE, ENOUGH_ASIDE = 0.15, 20_000
# Of small tables several parts are held out one after the other, until there are so many cells,
# but no more parts than that. (Against one part: errors of the league 2 % smaller, of 90 instances
# of other tables 1 % smaller, of 230 more .4 % larger, of 255 more .5 % smaller; F1 of spikes of 4
# standard deviations .79, .73, .75, .74 instead of .76, .68, .76, .72.)
LEAST_ASIDE, MOST_FOLDS = 300, 6
# Fewer held-out cells than this do not tell the rank; weak components are shrunk anyway. (League
# and 112 other tables: the 99th percentile of the error over IterativeImputer's is 1.47; 1.63 with
# 0.)
FEW_ASIDE = 60
# Errors at held-out cells count at most so many units each: a right cell may be far out.
CLIPPED = 4.0
# Of a list, ranks whose mean squared errors are within this part are as good. (Two million entries,
# rank 5: errors of ranks 5 to 8 at the held-out cells differ by a millionth, but with rank 8 the
# predictions are 11 % worse. With ten times as much, components of MovieLens 100k are lost.)
AS_WELL = 1e-4
# A singular value of a tensor stands out of the noise from so many times its edge on. (Too few
# terms are found sooner than too many: the start of the next fit knows holes and wrong entries
# better.)
EDGE = 1.5

# --- Which cells are wrong (`_judge`).
# Right cells of real tables have heavier tails than the normal law: Student's, with the likeliest
# of these degrees of freedom, for the table and for each column. (League and 111 other tables: F1
# of spikes .943 and .926 at 8 standard deviations, .766 and .718 at 4; .940, .916, .755 and .694
# with 5 everywhere. 90 % intervals cover less than 80 % of 13 instances; else of 23.)
FREEDOMS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 16.0)
# A column has tails of its own if they are likelier than the table's by this much (logarithm); with
# 0, F1 of spikes of 4 standard deviations is .03 smaller. Twice as much changes .002.
TAIL_MARGIN = 2.0
# A column with scores this much smaller than those of the others is explained nearly exactly.
DUPLICATE = 0.1
# The tails of the table are found from so many cells at the most.
ENOUGH_CELLS = 10_000
# Sizes of wrong cells are lognormal. The prior: as if so many were known, 8 units in the median,
# within a factor of e^.5; never narrower than e^.3.
WRONG_PRIOR, WRONG_MEDIAN, WRONG_SPREAD, WRONG_NARROWEST = 5.0, float(np.log(8.0)), 0.5, 0.3
# The law of wrong cells is found once a round changes none of its numbers by this much: a round
# changes a third of what the one before has changed. The tails are chosen with nearly that law.
SETTLED, NEARLY_SETTLED = 1e-6, 1e-4
# Noise may be over-estimated by the fit, but not by more than this factor.
SMALLEST_UNIT = 0.5
# A cell that alone determines its row has no prediction by the others.
LARGEST_LEVERAGE = 0.99

# --- Intervals (`_calibration`).
# The scores of the table count as so many cells beside those of a column. (With 10 and 100, on 119
# instances of the league and 520 of other tables, coverage changes by .1 %.)
TABLE_CELLS = 30.0

# --- Noise of rows and columns of a list (`_relative`).
# The smallest part of the common variance.
SMALLEST_RELATIVE = 0.1

# --- Exact tables (`_exact`, `_refinement`).
# Residuals this small are rounding errors.
ROUNDING = 1e-9
# Residuals this small are none, and traces of normal equations get so much more; cells with
# residuals up to the second are polished.
COLLAPSED, NEARLY_ROUNDING = 1e-13, 1e-5
# The noise of an exact table as a model: small, but rows of few cells have regular equations.
EXACT_NOISE = 1e-7
# A table may be exact if the median residual at held-out cells is below this part of a unit: what
# is not exact costs some sweeps then, and no more. (Of 129 real tables the smallest is .024; of
# exact ones with up to 30 % wrong cells it is .005, of those with 20 rows .09.)
NEARLY_EXACT = 0.1
# In a list of more entries than this an exact table is searched for only if the median error at
# the held-out cells is below this part of a unit. (Of exact lists it is below .0001; the search
# in two million entries with noise of .1 took 12 s.)
MANY, NEARLY_EXACT_LIST = 100_000, 0.01
# Noise of a tensor this small may be none: least squares are for exact data.
NEARLY_EXACT_TENSOR = 1e-3
# Of a table without noise, ranks whose median errors are within this factor are as good. Of a list
# surplus components hide what others have not yet explained: a larger factor is tried first.
AS_GOOD = (100.0, 4.0)
# Gauss-Newton steps, and iterations of conjugate gradients for each, at the most; how small these
# make the gradient.
STEPS, SMALL_GRADIENT = 100, 1e-2
# The search ends if so many steps have not halved the median residual.
PATIENCE = 10
# Cells count if their residual is below so many medians.
BULK = 6.0
# What is added to the normal equations of all rows and columns together, relative to their trace,
# where rows of too few cells would be anything.
DAMPING = 1e-10
# Rows and columns are annealed over so many levels.
ANNEALING_LEVELS = 40
# A component is unseen by a row if the least eigenvalue of the normal equations is below this part
# of the largest: between the squares of rounding errors and of the smallest components.
UNSEEN = 1e-12
# A cell with a leverage from here on has a row, or a column, for itself.
ALONE = 1 - 1e-6
# Rows are found from so many columns for each unknown.
TELLING = 30

# --- Large tables and lists (`_cells`, `_fit`, `model`).
# Columns of a dense table are learned from so many rows, or as many as have so many cells, but not
# fewer than these. The other rows are predicted after that; and where rows were few for the
# columns, sweeps over all cells follow.
ROWS, CELLS, FEWEST_ROWS = 5_000, 1_000_000, 300
# A list of entries with at least this share of a table is fitted as one: matrix products are faster
# than sums over a list.
DENSE = 0.2
# Cells are visited in pieces: of a list, nothing of size entries x rank exists, and what is
# computed at a piece stays near the processor. Weights of two million entries take 28 ms in pieces
# of this size, and 45 ms in those of an eighth, in which threads wait for each other.
PIECE = 1 << 17
# Sums over the entries of a list of more than a piece are those over so many blocks of its rows.
# (Fixed, and not the number of cores, because the rounding depends on it.)
BLOCKS = 4
# NumPy and SciPy release the lock of the interpreter, so that two threads take half the time; to
# start them pays from about so many products of two numbers. (200,000 entries took .8 s; 1.4 s with
# threads for all sums, on a machine with other work.)
WORTHWHILE = 1 << 22
# So many small matrices are inverted at once.
BATCH = 1 << 10
# Larger ones are inverted by blocks if there are so many. (Blocks of 3 take as long; 60 of 13 rows
# .13 ms with and without.)
ELIMINATED, ENOUGH_FOR_BLOCKS = 6, 100
# Rounds of subspace iteration; a start needs no more.
SUBSPACE_ROUNDS = 5
# Bytes that a fit takes for each known cell: measured peaks are 320 for noisy tables of 24 and
# 32 MB, and 160 for exact ones.
BYTES_OF_A_CELL = 320
