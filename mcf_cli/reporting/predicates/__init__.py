from mcf_cli.reporting.predicates import curves, errors, facts
from mcf_cli.reporting.predicates.base import Predicate, WithoutRows

VOCABULARY: dict[str, type[Predicate] | type[WithoutRows]] = {  # the words of a claim's `check`
    "below_at_every_level": errors.BelowAtEveryLevel,
    "beats_in_most": errors.BeatsInMost,
    "reduction": errors.Reduction,
    "error_is": errors.ErrorIs,
    "error_at_most": errors.ErrorAtMost,
    "order_of": errors.OrderOf,
    "more_effective": errors.MoreEffective,
    "smaller_gain": errors.SmallerGain,
    "best_level_between": curves.BestLevelBetween,
    "rises_after": curves.RisesAfter,
    "smaller_l2": curves.SmallerL2,
    "falls_with_level": curves.FallsWithLevel,
    "falls_with_copies": curves.FallsWithCopies,
    "limit_is_best": curves.LimitIsBest,
    "cost_is": facts.CostIs,
    "cheaper": facts.Cheaper,
    "grows_linearly": facts.GrowsLinearly,
    "no_dearer_than_copies": facts.NoDearerThanCopies,
    "bounds_lie_above": facts.BoundsLieAbove,
    "no_gap": facts.NoGap,
    "data_size": facts.DataSize,
    "computed": facts.Computed,
}
