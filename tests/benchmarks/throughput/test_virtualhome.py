"""What is counted as a step of the simulator alone."""

from agentgym.virtualhome.generated.activities import GeneratedActivities
from benchmarks.throughput.virtualhome import play_programs


def test_the_simulator_alone_plays_whole_programs():
    activities = GeneratedActivities()
    speed, steps = play_programs(activities, "train", first=0, count=3)
    # the first three activities, each with all of its commands
    assert steps == sum(len(activities.by_index("train", index).program) for index in range(3))
    assert speed.value > 0
