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
    ax = lm.plots.convergence(run(3), title="Polyak, target 0")
    assert ax.get_title() == "Polyak, target 0"
    assert ax.get_legend() is None


def test_nothing_to_draw_is_said():
    with pytest.raises(ValueError, match="nothing to draw"):
        lm.plots.compare(comparison())
    with pytest.raises(ValueError, match="nothing to draw"):
        lm.plots.convergence({})
