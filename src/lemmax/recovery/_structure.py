"""How many observations and which ranks are worth a try."""

# A fit of that many degrees of freedom goes through as many observations by construction. So many
# more that it goes through cannot be chance.
_SPARE, _SPARE_SHARE = 5, 0.05


def lower_ranks(bound: int) -> list[int]:
    """Ranks below a bound: all the small ones, then fewer and fewer."""
    ranks = [1, 2, 3, 4]
    while ranks[-1] < bound:
        ranks.append(-(-ranks[-1] * 3 // 2))
    return [rank for rank in ranks if rank < bound]


def convincing_observations(freedom: int) -> int:
    """So many must be explained by a fit of so many degrees of freedom to be more than chance."""
    return freedom + max(_SPARE, int(_SPARE_SHARE * freedom))
