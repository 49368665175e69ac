"""What a learner is up against: data that respond, data that drift, a loss, a domain."""
