/** Budgets in USD, as forms have them; an emptied input is null. */
export interface Budgets {
  daily_budget: number | null;
  weekly_budget: number | null;
  monthly_budget: number | null;
  total_budget: number | null;
}

/** Returns only the budgets of an entity; 0 = none. */
export function budgetsOf(entity: Partial<Budgets> | null): Budgets {
  return {
    daily_budget: entity?.daily_budget ?? 0,
    weekly_budget: entity?.weekly_budget ?? 0,
    monthly_budget: entity?.monthly_budget ?? 0,
    total_budget: entity?.total_budget ?? 0,
  };
}
