"""Three controllers that are one: elections, decisions, and what happens to them when a node or the network goes."""

import trio
from support.quorum import Controllers, create, register, run


def test_three_nodes_found_a_cluster_and_share_one_image() -> None:
    async def story(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        await cluster.agree()
        ids = {member.controller.image.cluster_id for member in cluster.running.values()}
        assert len(ids) == 1
        assert "" not in ids
        await register(leader.controller, 1)
        assert await create(leader.controller, "flights") == [0]
        await cluster.agree()
        assert all(list(member.controller.image.topics) == ["flights"] for member in cluster.running.values())

    run(story)


def test_any_node_can_be_asked_and_knows_what_it_answered() -> None:
    async def story(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        await cluster.leader()
        for node_id in (1, 2, 3):
            await register(cluster[node_id], node_id)
            assert node_id in cluster[node_id].image.brokers
            assert await create(cluster[node_id], f"topic-{node_id}") == [0]
            assert f"topic-{node_id}" in cluster[node_id].image.topics

    run(story)


def test_the_loss_of_the_active_controller_costs_a_moment() -> None:
    async def story(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        await register(leader.controller, leader.node_id)
        await create(leader.controller, "before")
        await cluster.kill(leader.node_id)
        other = next(iter(cluster.running))
        began = trio.current_time()
        await register(cluster[other], other)
        assert await create(cluster[other], "after") == [0]
        assert trio.current_time() - began < 1.5
        assert list(cluster[other].image.topics) == ["before", "after"]
        await cluster.start(leader.node_id)
        await cluster.agree()
        assert list(cluster[leader.node_id].image.topics) == ["before", "after"]

    run(story)
