"""The points a learner is measured against: performatively stable, performatively optimal."""
