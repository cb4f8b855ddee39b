"""The decode batch: sums and block demand by formula equal what request by request gives."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decode_batch import DecodeBatch
from sim.request import DECODING, FINISHED, WAITING, Request

BLOCK = 4


def decoding(index: int, held: int, tokens_left: int) -> Request:
    """A request with `held` tokens in the cache, one of them generated."""
    request = Request(None, index, 0.0, held, tokens_left + 1)
    request.computed_tokens = held
    request.generated_tokens = 1
    request.admission_index = index
    return request


@dataclass
class Plain:
    """A decoding request, counted step by step."""

    held: int
    left: int


sizes = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=8)


def brute_demand(held: list[int], num_steps: int) -> int:
    """Blocks that are begun in the next steps: token number held + k starts one if it divides."""
    return sum((tokens + k) % BLOCK == 0 for tokens in held for k in range(num_steps))


@settings(max_examples=150, deadline=None)
@given(sizes=sizes, joins=st.lists(st.integers(0, 6), min_size=8, max_size=8))
def test_moments_and_finishes_equal_those_counted_step_by_step(
    sizes: list[tuple[int, int]], joins: list[int]
) -> None:
    batch = DecodeBatch(BLOCK)
    plain: dict[int, Plain] = {}
    for index, (held, left) in enumerate(sizes):
        batch.enter(decoding(index, held, left))
        plain[index] = Plain(held, left)
        for _ in range(joins[index]):
            if not plain:
                break
            assert batch.steps_to_first_finish() == min(p.left for p in plain.values())
            is_due = batch.advance(1)
            for p in plain.values():
                p.held, p.left = p.held + 1, p.left - 1
            done = [i for i, p in plain.items() if p.left == 0]
            if done:
                assert is_due
            finished = batch.pop_finished()
            assert [r.request_id for r in finished] == done
            for request in finished:
                assert request.computed_tokens == plain[request.request_id].held
                assert request.generated_tokens == request.output_tokens
                assert request.num_blocks == -(-request.computed_tokens // BLOCK)
                del plain[request.request_id]
        contexts = [p.held + 1 for p in plain.values()]
        assert batch.num_requests == len(contexts)
        assert batch.context_tokens == sum(contexts)
        assert batch.context_tokens_squared == sum(c * c for c in contexts)
        assert batch.max_context_tokens == max(contexts, default=0)


@settings(max_examples=100, deadline=None)
@given(sizes=sizes, steps=st.integers(1, 500))
def test_many_steps_at_once_equal_single_ones(sizes: list[tuple[int, int]], steps: int) -> None:
    once, singly = DecodeBatch(BLOCK), DecodeBatch(BLOCK)
    for batch in (once, singly):
        for index, (held, _) in enumerate(sizes):
            batch.enter(decoding(index, held, 1000))
    once.advance(steps)
    for _ in range(steps):
        singly.advance(1)
    for name in ("step", "context_tokens", "context_tokens_squared", "max_context_tokens"):
        assert getattr(once, name) == getattr(singly, name), name


@settings(max_examples=150, deadline=None)
@given(
    sizes=sizes,
    first_step=st.integers(0, 9),
    num_steps=st.integers(0, 40),
    num_blocks=st.integers(0, 60),
)
def test_block_demand_equals_that_counted_block_by_block(
    sizes: list[tuple[int, int]], first_step: int, num_steps: int, num_blocks: int
) -> None:
    batch = DecodeBatch(BLOCK)
    held: list[int] = []
    for index, (tokens, _) in enumerate(sizes):  # one request joins every `first_step` steps
        batch.advance(first_step)
        held = [h + first_step for h in held] + [tokens]
        batch.enter(decoding(index, tokens, 10_000))
    assert batch.blocks_for_steps(num_steps) == brute_demand(held, num_steps)
    most = batch.steps_within_blocks(num_blocks)
    assert brute_demand(held, most) <= num_blocks < brute_demand(held, most + 1)


def test_a_preempted_request_does_not_finish_at_its_old_step() -> None:
    batch = DecodeBatch(BLOCK)
    short, long = decoding(0, 4, 3), decoding(1, 8, 9)
    batch.enter(short)
    batch.enter(long)
    batch.advance(2)
    batch.leave(short)
    short.phase = WAITING
    assert (short.computed_tokens, short.generated_tokens) == (6, 3)
    assert batch.steps_to_first_finish() == 7
    batch.advance(1)
    assert batch.pop_finished() == []
    assert (batch.num_requests, batch.context_tokens) == (1, 8 + 3 + 1)


def test_a_request_that_came_back_finishes_once_and_at_its_new_step() -> None:
    batch = DecodeBatch(BLOCK)
    request = decoding(0, 4, 3)
    batch.enter(request)
    batch.advance(1)
    batch.leave(request)
    request.phase = WAITING
    request.admission_index = 5
    request.computed_tokens = 7
    request.generated_tokens = 3
    batch.enter(request)
    assert batch.steps_to_first_finish() == 1
    batch.advance(1)
    assert batch.pop_finished() == [request]
    assert batch.pop_finished() == []
    assert batch.num_requests == 0


def test_finishes_of_one_step_come_in_running_order() -> None:
    batch = DecodeBatch(BLOCK)
    for index in (3, 1, 2, 0):
        batch.enter(decoding(index, 4, 2))
    batch.advance(2)
    assert [request.admission_index for request in batch.pop_finished()] == [0, 1, 2, 3]


def test_stale_finishes_are_dropped_when_they_outnumber_the_others() -> None:
    batch = DecodeBatch(BLOCK)
    for index in range(200):
        request = decoding(index, 4, 50)
        batch.enter(request)
        if index:
            batch.leave(request)
            request.phase = WAITING
    batch.forget_stale_finishes()
    assert [item[2].request_id for item in batch.finishes] == [0]
    assert batch.steps_to_first_finish() == 50


def test_the_longest_context_is_found_again_when_its_request_leaves() -> None:
    batch = DecodeBatch(BLOCK)
    requests = [decoding(index, held, 99) for index, held in enumerate((5, 30, 20))]
    for request in requests:
        batch.enter(request)
    assert batch.max_context_tokens == 31
    batch.advance(2)
    batch.leave(requests[1])
    requests[1].phase = FINISHED
    assert batch.max_context_tokens == 23
    assert requests[0].phase == DECODING
    batch.enter(decoding(3, 40, 9))
    assert batch.max_context_tokens == 41


@settings(max_examples=150, deadline=None)
@given(
    crowd=st.sampled_from([0, 22, 26, 60]),
    changes=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 60)), max_size=40),
)
def test_the_longest_context_equals_a_recount_after_any_changes(
    crowd: int, changes: list[tuple[int, int]]
) -> None:
    """Asked for now and then only, so that it is looked up after several changes too; in a small
    batch, in a large one, and in one that is now this and now that."""
    batch = DecodeBatch(BLOCK)
    inside = {-1 - i: decoding(-1 - i, 1 + i % 50, 100_000) for i in range(crowd)}
    held = {key: request.computed_tokens for key, request in inside.items()}
    for request in inside.values():
        batch.enter(request)
    away: list[Request] = []
    for index, (kind, number) in enumerate(changes):
        if kind == 0 and inside:
            request = inside.pop(list(inside)[number % len(inside)])
            batch.leave(request)
            request.phase = WAITING
            assert request.computed_tokens == held.pop(request.request_id)
            away.append(request)
        elif kind == 1:
            batch.advance(number)
            held = {key: tokens + number for key, tokens in held.items()}
        elif kind == 2 and away:  # back again, with another length
            request = away.pop(number % len(away))
            request.admission_index = 1000 + index
            request.computed_tokens = held[request.request_id] = number
            inside[request.request_id] = request
            batch.enter(request)
        elif kind > 2:
            inside[index] = request = decoding(index, number, 100_000)
            held[index] = number
            batch.enter(request)
        if number % 2:
            assert batch.max_context_tokens == max(held.values(), default=-1) + 1


def test_an_empty_batch_has_no_context() -> None:
    batch = DecodeBatch(BLOCK)
    assert (batch.advance(3), batch.max_context_tokens, batch.blocks_for_steps(9)) == (False, 0, 0)
