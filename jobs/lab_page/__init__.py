"""The lab's page: what its experiments found, as one short paper."""
