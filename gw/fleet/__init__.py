"""The bank in Valkey, which counts budgets and rates for several gateways."""
