"""The privacy core: budgets, releases, accounting, noise, ledger, certificate."""
