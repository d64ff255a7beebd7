"""Events, feeds, retention and exports of the logs."""
