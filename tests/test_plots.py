"""Pictures: what they show, and when there is nothing to show."""

import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm

PROBLEM = lm.Composite(lm.losses.L2(), lm.maps.Square(2), data=jnp.array([4.0, 0.0]))


def run(steps):
    return lm.solve(PROBLEM, lm.methods.polyak_subgradient(), jnp.ones(2), max_steps=steps, tol=0)


def comparison(**results):
    return lm.Comparison(results, {}, "Square, dim 2, L2")


def test_every_axis_begins_where_the_run_does():
    result = run(4)
    figure = lm.plots.compare(comparison(a=result, b=run(6)))
    steps, passes, seconds = (ax.lines[0].get_xdata() for ax in figure.axes)
    np.testing.assert_array_equal(steps, np.arange(5))
    np.testing.assert_array_equal(passes, 2 * np.arange(1, 6))
    np.testing.assert_allclose(seconds, np.arange(5) * result.seconds / 4)
    labels = [ax.get_xlabel() for ax in figure.axes]
    assert labels == ["steps", "passes over the measurements", "mean seconds per step × steps"]
    assert figure.axes[0].get_xscale() == "linear"


def test_a_comparison_has_a_title_and_one_legend_beside_the_curves():
    figure = lm.plots.compare(comparison(a=run(3), b=run(3)))
    assert figure.get_suptitle() == "Square, dim 2, L2"
    assert lm.plots.compare(comparison(a=run(3)), title="mine").get_suptitle() == "mine"
    first, second, third = (ax.get_legend() for ax in figure.axes)
    assert first is None
    assert second is None
    figure.canvas.draw()
    assert third.get_window_extent().x0 >= figure.axes[2].get_window_extent().x1


def test_a_long_run_does_not_squeeze_a_short_one():
    figure = lm.plots.compare(comparison(long=run(300), short=run(3)))
    ax = figure.axes[0]
    assert ax.get_xscale() == "symlog"
    ends = ax.transData.transform([(0, 1), (3, 1), (300, 1)])[:, 0]
    assert ends[1] - ends[0] > 0.2 * (ends[2] - ends[0])


def test_many_methods_differ_in_colour():
    result = run(2)
    for count in (10, 25):
        named = {f"m{k}": result for k in range(count)}
        lines = lm.plots.compare(comparison(**named)).axes[0].lines
        looks = {(str(line.get_color()), str(line.get_linestyle())) for line in lines}
        colours = {str(line.get_color()) for line in lines}
        assert len(looks) == count
        assert len(colours) == count


def test_one_run_can_be_given_a_title():
    (ax,) = lm.plots.convergence(run(3), title="Polyak, target 0").axes
    assert ax.get_title() == "Polyak, target 0"
    assert ax.get_legend() is None


def test_nothing_to_draw_is_said():
    with pytest.raises(ValueError, match="nothing to plot"):
        lm.plots.compare(comparison())
    with pytest.raises(ValueError, match="nothing to plot"):
        lm.plots.convergence({})


def shown_names(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_named_positions_are_dots_and_numbered_ones_lines():
    values = np.arange(6.0).reshape(3, 2)
    figure = lm.plots.factors([values, values], labels=[["Ann", "Bob", "Cy"], None], first=1)
    named, numbered = figure.axes
    assert shown_names(named.xaxis) == ["Ann", "Bob", "Cy"]
    assert {line.get_linestyle() for line in named.lines[:2]} == {"None"}
    assert shown_names(numbered.xaxis) == ["1", "2", "3"]
    assert {line.get_linestyle() for line in numbered.lines[:2]} == {"-"}
    np.testing.assert_array_equal(numbered.lines[1].get_ydata(), values[:, 1])


@pytest.mark.parametrize("length", [1, 2, 5, 40, 400])
def test_positions_are_whole_numbers(length):
    figure = lm.plots.factors([np.ones((length, 1))])
    figure.canvas.draw()
    ticks = figure.axes[0].get_xticks()
    np.testing.assert_array_equal(ticks, np.round(ticks))


def test_of_many_names_some_are_shown_where_they_belong():
    names = [f"station {k}" for k in range(1000)]
    figure = lm.plots.factors([np.ones((1000, 1))], labels=[names])
    axis = figure.axes[0].xaxis
    shown = shown_names(axis)
    assert 10 <= len(shown) <= 30
    assert shown == [names[int(tick)] for tick in axis.get_ticklocs()]
    with pytest.raises(ValueError, match="2 names for 3 positions of mode 0"):
        lm.plots.factors([np.ones((3, 1))], labels=[["a", "b"]])


def test_before_and_after_share_colours_that_a_gross_error_does_not_take():
    rng = np.random.default_rng(0)
    cleaned = rng.standard_normal((40, 30))
    wrong = np.zeros_like(cleaned)
    wrong[3, 4], wrong[5, 6] = 1e9, -1.0
    cleaned[0, 0] = 1e6  # large, but right
    rows = [f"day {k}" for k in range(40)]
    figure = lm.plots.before_after(cleaned + wrong, cleaned, wrong, rows=rows)
    before, after, errors = (ax.images[0] for ax in figure.axes[:3])
    assert before.get_clim() == after.get_clim()
    assert max(map(abs, before.get_clim())) < 10
    low, high = errors.get_clim()
    assert low == -high
    assert shown_names(figure.axes[0].yaxis)[:2] == ["day 0", "day 2"]
    same = np.full((3, 2), 7.0)
    before, after, _ = (ax.images[0] for ax in lm.plots.before_after(same, same, 0 * same).axes[:3])
    assert before.get_clim() == after.get_clim()


def test_a_wrong_entry_of_a_large_table_is_seen_where_it_is():
    table = np.zeros((5001, 4))
    wrong = table.copy()
    wrong[4321, 2] = 5.0
    ax = lm.plots.before_after(table + wrong, table, wrong).axes[2]
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[2, 4321]])
    assert ax.get_ylim() == (5000.5, -0.5)


def test_a_regression_shows_coefficients_and_residuals_of_few_and_of_many():
    rng = np.random.default_rng(0)
    names = ["sand", "grass"]
    one = lm.plots.regression([0.5, 0.0], [0.1, -0.2, 0.1], columns=names)
    assert shown_names(one.axes[0].xaxis) == names
    np.testing.assert_array_equal(one.axes[1].lines[0].get_ydata(), [0.1, -0.2, 0.1])
    many = rng.standard_normal((3, 20))
    figure = lm.plots.regression(np.abs(many[:2]), many, columns=names)
    np.testing.assert_array_equal(figure.axes[1].images[0].get_array(), many.T)
    with pytest.raises(ValueError, match="a column for each right-hand side"):
        lm.plots.regression(np.ones((2, 3)), np.ones((5, 4)))


def test_a_doubtful_recovery_is_drawn_legibly():
    map, x = lm.maps.LowRank((2, 2), 1), (np.ones((2, 1)), np.ones((2, 1)))
    found = lm.Recovery(
        point=map(x),
        x=x,
        map=map,
        status=lm.RecoveryStatus.NOT_CONVERGED,
        rank=1,
        rank_bound=1,
        sizes=np.array([2.0]),
        residual=np.array([[0.0, 1e-9], [1e-8, 3.0]]),
        outliers=(np.array([1]), np.array([1])),
        noise=0.1,
        expected_error=0.5,
        freedom=3,
        needed=4,
        observations=4,
        objections=(),
        passes=1,
        steps=1,
        seconds=0.1,
    )
    figure = lm.plots.recovery(found)
    assert figure.get_suptitle() == "No answer that the data support was found"
    terms, residuals = figure.axes
    assert shown_names(terms.xaxis) == ["1"]
    # Nobody knows what is wrong.
    assert residuals.get_title() == "1 of 4 observations are not explained"
    # What is exactly zero does not stretch the axis to where nothing is.
    np.testing.assert_array_equal(residuals.lines[0].get_ydata(), [1e-9, 1e-9, 1e-8])


@pytest.mark.parametrize(("rows", "columns"), [(50_000, 12), (10_001, 7), (721, 500), (361, 3)])
def test_a_long_table_without_holes_is_drawn_without_holes(rows, columns):
    residuals = np.ones((rows, columns))
    figure = lm.plots.residual_map(residuals)
    drawn = figure.axes[1].images[0].get_array()
    missing = np.ma.getmaskarray(drawn) | np.isnan(np.ma.filled(drawn, np.nan))
    # The last line may be short, and the last dot of every column in a line is there.
    assert not missing[:-1].any()
    assert not missing[-1].all()


def test_a_fit_is_drawn_between_its_data_and_far_ones_at_the_edge():
    t = np.linspace(0.0, 3.0, 12)
    y = 2 * np.exp(-t) + 1e-3 * np.cos(9 * t)
    y[4], y[7] = 1e6, -1e6

    def decay(x, t):
        return x[0] * jnp.exp(-x[1] * t)

    fitted = lm.fit(decay, y, [1.0, 1.0], args=(t,))
    above, _ = lm.plots.fit(fitted, t).axes
    times, values = above.lines[0].get_data()
    assert len(times) > 100
    np.testing.assert_allclose(values, fitted.x[0] * np.exp(-fitted.x[1] * times), rtol=1e-9)
    low, high = above.get_ylim()
    assert -10 < low < 0 < high < 10
    assert "outliers, farther away (2)" in [line.get_label() for line in above.lines]

    def made_for_twelve(x, t):
        return x[0] * jnp.exp(-x[1] * t[:12]) * jnp.ones(12)

    fitted = lm.fit(made_for_twelve, y, [1.0, 1.0], args=(t,))
    np.testing.assert_array_equal(lm.plots.fit(fitted, t).axes[0].lines[0].get_xdata(), t)
