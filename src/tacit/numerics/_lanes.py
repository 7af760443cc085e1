"""Compiled: eight numbers at a time, one of each of eight tasks.

A `Lanes` value is one vector register: eight tasks go through the same instructions side by side,
and no instruction mixes them. Sums are taken in the order in which they are written, products are
fused where `fma` says so and nowhere else: what a task's lane holds is a function of that lane, to
the bit. Arrays are flat; place p is the numbers 8p to 8p + 7.

Imported by compiled kernels only: importing Numba takes most of a second.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from tacit.numerics._blocks import cached

__all__ = ["WIDTH", "absolute", "any_of", "choose", "exp_below", "fma", "get", "lane", "log"]
__all__ += ["compiled_lanes", "greater", "put", "root", "spread"]

WIDTH = 8
_REAL = ir.DoubleType()
_VECTOR = ir.VectorType(_REAL, WIDTH)
_WHOLE = ir.VectorType(ir.IntType(64), WIDTH)
_BITS = ir.VectorType(ir.IntType(1), WIDTH)


class Lanes(types.Type):
    """Eight floats."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


class Mask(types.Type):
    """Eight truth values."""

    def __init__(self) -> None:
        super().__init__(name="LanesMask")


_lanes, _mask = Lanes(), Mask()
_ARRAY = types.Array(types.float64, 1, "C")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _BITS)


def compiled_lanes(function: Callable[..., Any]) -> Any:
    """Compile arithmetic as it is written: nothing fused, nothing reordered."""
    return cached(function, fastmath=False)


def _operator(symbol: Any, kind: Any, found: Any, build: Callable[[Any, Any, Any], Any]) -> None:
    @type_callable(symbol)
    def typed(context: Any) -> Any:  # noqa: ARG001
        return lambda a, b: found if a == kind and b == kind else None

    @lower_builtin(symbol, kind, kind)
    def lowered(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        return build(builder, *values)


_operator(operator.add, _lanes, _lanes, lambda b, x, y: b.fadd(x, y))
_operator(operator.sub, _lanes, _lanes, lambda b, x, y: b.fsub(x, y))
_operator(operator.mul, _lanes, _lanes, lambda b, x, y: b.fmul(x, y))
_operator(operator.truediv, _lanes, _lanes, lambda b, x, y: b.fdiv(x, y))
# As everywhere, nothing is less than NaN and nothing greater.
_operator(operator.lt, _lanes, _mask, lambda b, x, y: b.fcmp_ordered("<", x, y))
_operator(operator.le, _lanes, _mask, lambda b, x, y: b.fcmp_ordered("<=", x, y))
_operator(operator.gt, _lanes, _mask, lambda b, x, y: b.fcmp_ordered(">", x, y))
_operator(operator.and_, _mask, _mask, lambda b, x, y: b.and_(x, y))
_operator(operator.or_, _mask, _mask, lambda b, x, y: b.or_(x, y))


@type_callable(operator.invert)
def _typed_not(context: Any) -> Any:  # noqa: ARG001
    return lambda a: _mask if a == _mask else None


@lower_builtin(operator.invert, _mask)
def _not(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
    return builder.not_(values[0])


def _address(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    held = context.make_array(signature.args[0])(context, builder, values[0])
    place = builder.mul(values[1], ir.Constant(ir.IntType(64), WIDTH))
    return builder.bitcast(builder.gep(held.data, [place]), _VECTOR.as_pointer())


def _called(builder: Any, name: str, *values: Any) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(values))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v8f64")
    return builder.call(function, values)


@intrinsic
def get(typing: Any, array: Any, place: Any) -> Any:  # noqa: ARG001
    """Return the eight numbers at a place."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(_address(context, builder, signature, values), align=8)

    return _lanes(_ARRAY, types.int64), build


@intrinsic
def put(typing: Any, array: Any, place: Any, value: Any) -> Any:  # noqa: ARG001
    """Write eight numbers to a place."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store(values[2], _address(context, builder, signature, values), align=8)
        return context.get_dummy_value()

    return types.void(_ARRAY, types.int64, _lanes), build


@intrinsic
def spread(typing: Any, number: Any) -> Any:  # noqa: ARG001
    """Return a number in every lane."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        zero = ir.Constant(ir.IntType(32), 0)
        single = builder.insert_element(nothing, values[0], zero)
        every = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(single, nothing, every)

    return _lanes(types.float64), build


@intrinsic
def lane(typing: Any, value: Any, number: Any) -> Any:  # noqa: ARG001
    """Return what one lane of a mask holds."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        return builder.extract_element(*values)

    return types.boolean(_mask, types.int64), build


@intrinsic
def choose(typing: Any, mask: Any, first: Any, second: Any) -> Any:  # noqa: ARG001
    """Return ``first`` in the lanes of the mask, ``second`` in the others."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        return builder.select(*values)

    return _lanes(_mask, _lanes, _lanes), build


@intrinsic
def any_of(typing: Any, mask: Any) -> Any:  # noqa: ARG001
    """Return whether a mask holds anywhere."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        bits = builder.bitcast(values[0], ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(WIDTH), 0))

    return types.boolean(_mask), build


def _function(name: str, n_arguments: int, meaning: str) -> Any:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        return _called(builder, name, *values)

    if n_arguments == 3:

        def known(typing: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001
            return _lanes(_lanes, _lanes, _lanes), build

    else:

        def known(typing: Any, a: Any) -> Any:  # type: ignore[misc]  # noqa: ARG001
            return _lanes(_lanes), build

    known.__name__ = known.__qualname__ = name
    known.__doc__ = meaning
    return intrinsic(known)


fma = _function("fma", 3, "Return a·b + c, rounded once.")
root = _function("sqrt", 1, "Return square roots.")
log = _function("log", 1, "Return natural logarithms.")
absolute = _function("fabs", 1, "Return absolute values.")


@intrinsic
def _power_of_two(typing: Any, shifted: Any) -> Any:  # noqa: ARG001
    """Return 2ᵏ for k + 1.5·2⁵², whose last bits are k."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        def every(number: int) -> Any:
            return ir.Constant(_WHOLE, [number] * WIDTH)

        bits = builder.add(builder.bitcast(values[0], _WHOLE), every(1023))
        return builder.bitcast(builder.shl(bits, every(52)), _VECTOR)

    return _lanes(_lanes), build


@numba.njit(inline="always")
def greater(a: Any, b: Any) -> Any:
    """Return the greater of two, lane by lane; the second where one is NaN."""
    return choose(a > b, a, b)


@compiled_lanes
def exp_below(x: Any) -> Any:
    """Return eˣ for x ≤ 0, to the last bit or two; below −708 it is e⁻⁷⁰⁸, and NaN is NaN.

    x = k log 2 + r with |r| ≤ ½ log 2, and Taylor's series of eʳ up to r¹³.
    """
    least = spread(-708.0)
    x = choose(x < least, least, x)
    shift = spread(6755399441055744.0)
    shifted = fma(x, spread(1.4426950408889634), shift)
    k = shifted - shift
    r = fma(k, spread(-6.93147180369123816490e-01), x)
    r = fma(k, spread(-1.90821492927058770002e-10), r)
    f = spread(1.6059043836821613e-10)
    f = fma(f, r, spread(2.0876756987868100e-09))
    f = fma(f, r, spread(2.5052108385441720e-08))
    f = fma(f, r, spread(2.7557319223985888e-07))
    f = fma(f, r, spread(2.7557319223985893e-06))
    f = fma(f, r, spread(2.4801587301587302e-05))
    f = fma(f, r, spread(1.9841269841269841e-04))
    f = fma(f, r, spread(1.3888888888888889e-03))
    f = fma(f, r, spread(8.3333333333333332e-03))
    f = fma(f, r, spread(4.1666666666666664e-02))
    f = fma(f, r, spread(1.6666666666666666e-01))
    f = fma(f, r, spread(0.5))
    one = spread(1.0)
    f = fma(f, r, one)
    f = fma(f, r, one)
    return f * _power_of_two(shifted)
