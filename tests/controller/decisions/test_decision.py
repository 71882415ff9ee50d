"""The context of a decision: new ids."""


from support.images import context


def test_ids_do_not_start_with_a_dash() -> None:
    assert all(context(seed=seed).new_id()[0] >> 2 != 62 for seed in range(500))
