"""The parts that tables of both formats share."""
