// Written by `python frontend/scripts/write_types.py` from the gateway's OpenAPI document. Do not edit.

export interface Shapes {
  AlertsReport: {
    open: Shapes["IncidentEntry"][];
    recent: Shapes["IncidentEntry"][];
    receivers: Shapes["ReceiverEntry"][];
    rules: Shapes["RuleEntry"][];
  };
  AttemptBar: {
    model_id: string;
    provider: string;
    outcome: string;
    error_code: string | null;
    upstream_status: number | null;
    start_ms: number;
    wait_ms: number;
    stream_ms: number;
  };
  AuditEntry: {
    timestamp: number;
    entity_type: "alerts" | "capture" | "fallbacks" | "key" | "login" | "model" | "person" | "project" | "provider" | "token";
    entity_id: string;
    action: "create" | "delete" | "read" | "test" | "update";
    changes: { [key: string]: unknown };
    source: "api" | "cli" | "mcp";
    actor: string;
    id?: number;
  };
  BucketState: {
    limit: number;
    remaining: number | null;
    reset_s: number | null;
  };
  BudgetState: {
    project: string;
    name: string;
    accent: string;
    spent: number;
    daily_budget: number;
    budget_action: "block" | "warn";
    budget_status: "exceeded" | "ok" | "warning";
    share: number | null;
  };
  BudgetUse: {
    period: "day" | "month" | "total" | "week";
    budget: number;
    spent: number;
    budget_status: "exceeded" | "ok" | "warning";
    share: number;
  };
  Capture: {
    text?: boolean;
    audio?: boolean;
    share?: number;
    keep_days?: number;
    names?: string[];
    presidio?: string;
  };
  CaptureBody: {
    text?: boolean;
    audio?: boolean;
    share?: number;
    keep_days?: number;
    names?: string[];
    presidio?: string;
  };
  CaptureFound: {
    request_id: string;
    project: string;
    timestamp: number;
    role: string;
    text: string;
  };
  CaptureStats: {
    enabled: boolean;
    projects: string[];
    requests: number;
    bytes: number;
    max_bytes: number;
    oldest_at: number | null;
    waiting: number;
    stored: number;
    dropped: number;
    failed: number;
    expired: number;
    evicted: number;
    forgotten: number;
    trouble: string;
  };
  CapturedRequest: {
    request_id: string;
    timestamp: number;
    project: string;
    session_id: string | null;
    turn_id: string | null;
    modality: "llm" | "stt" | "tts";
    model_id: string;
    captured: "dropped" | "incomplete" | "stored";
    said: Shapes["Said"][];
    cut: boolean;
    has_audio: boolean;
  };
  CapturedSession: {
    requests: Shapes["CapturedRequest"][];
    more: boolean;
  };
  CapturesFound: {
    found: Shapes["CaptureFound"][];
    searched: number;
    next: number | null;
  };
  Chain: {
    models: string[];
    source: "db" | "yaml";
  };
  ComparedFigures: {
    ours: number | null;
    theirs: number | null;
    diff: number | null;
    percent: number | null;
  };
  Comparison: {
    period: "15m" | "1h" | "24h" | "30d" | "7d" | "all" | "custom" | "month" | "today" | "week";
    current: Shapes["PeriodFigures"];
    before: Shapes["PeriodFigures"];
    course: Shapes["Course"];
  };
  CostGroup: {
    cost: number;
    requests: number;
  };
  Costs: {
    period: "15m" | "1h" | "24h" | "30d" | "7d" | "all" | "custom" | "month" | "today" | "week";
    from: number | null;
    to: number;
    project: string | null;
    total: number;
    requests: number;
    unpriced_requests: number;
    unpriced_estimate: number;
    wasted: number;
    saved: number;
    by_provider: { [key: string]: Shapes["CostGroup"] };
    by_model: { [key: string]: Shapes["CostGroup"] };
    by_project?: { [key: string]: Shapes["CostGroup"] };
    by_modality: { [key: string]: Shapes["CostGroup"] };
    charges: Shapes["VendorCharge"][];
  };
  CostsPage: {
    costs: Shapes["Costs"];
    before: Shapes["Costs"] | null;
    series: Shapes["CountSeries"];
    forecast: Shapes["Forecast"];
  };
  CountLine: {
    name: string;
    total: number;
    values: number[];
  };
  CountSeries: {
    metric: "cost" | "errors" | "latency" | "requests" | "ttfb";
    period: "15m" | "1h" | "24h" | "30d" | "7d" | "all" | "custom" | "month" | "today" | "week";
    from: number | null;
    to: number;
    by: string;
    project: string | null;
    model: string | null;
    grain: "day" | "hour" | "minute" | "second";
    step_s: number;
    times: number[];
    series: Shapes["CountLine"][];
  };
  Course: {
    grain: "day" | "hour" | "minute" | "second";
    step_s: number;
    times: number[];
    requests: number[];
    errors: number[];
    cost: number[];
    ttfb_p50: (number | null)[];
    first_audio_p50: (number | null)[];
  };
  CreateKey: {
    name?: string | null;
    expires_at?: number | null;
    daily_budget?: number | null;
    weekly_budget?: number | null;
    monthly_budget?: number | null;
    total_budget?: number | null;
    models?: string[] | null;
    modalities?: ("llm" | "stt" | "tts")[] | null;
    regions?: string[] | null;
    requests_per_minute?: number | null;
    max_concurrent?: number | null;
    project?: string | null;
  };
  CreateModel: {
    modality: "llm" | "stt" | "tts";
    provider_id: string;
    model_name: string;
    display_name?: string | null;
    default_language?: string | null;
    default_voice?: string | null;
    price?: Shapes["PriceBody"] | null;
  };
  CreateProject: {
    project_id: string;
    name?: string | null;
    description?: string | null;
    daily_budget?: number | null;
    weekly_budget?: number | null;
    monthly_budget?: number | null;
    total_budget?: number | null;
    budget_action?: "block" | "warn";
    default_stack?: string | null;
    tags?: string[] | null;
    regions?: string[] | null;
    accent?: string | null;
    fallbacks?: { [key: string]: string[] } | null;
    phrase_cache?: Shapes["PhraseCacheBody"] | null;
    capture?: Shapes["CaptureBody"] | null;
  };
  CreateProvider: {
    provider_id: string;
    provider_type?: string | null;
    api_key?: string | null;
    base_url?: string | null;
  };
  CreateToken: {
    name: string;
    role: "admin" | "operator" | "viewer";
    projects?: string[] | null;
    capture?: boolean;
    expires_at?: number | null;
  };
  DashboardModel: {
    modality: "llm" | "stt" | "tts";
    provider: string;
  };
  DashboardStatus: {
    providers: { [key: string]: Shapes["ProviderState"] };
    models: { [key: string]: Shapes["DashboardModel"] };
    fallbacks: { [key: string]: string[] };
  };
  DayFigures: {
    requests: number;
    errors: number;
    refused: number;
    fallbacks: number;
    cancelled: number;
    cost: number;
    wasted: number;
    saved: number;
    ttfb: Shapes["MedianAndTail"];
    ttfb_by_modality: { [key: string]: Shapes["MedianAndTail"] };
  };
  Difference: {
    model: string;
    names: string[];
    matched: "both" | "ours_only" | "theirs_only";
    units: { [key: string]: Shapes["ComparedFigures"] };
    cost_usd: Shapes["ComparedFigures"];
    requests: number | null;
    n_requests: number | null;
    credits: number | null;
    flagged: boolean;
    cause: "" | "coverage" | "rate" | "units" | "unpriced";
  };
  Dimensions: {
    tier?: string;
    region?: string;
    addons?: string[];
    searches?: number;
    text_messages?: number;
    cache_write_long_tokens?: number;
    cached_audio_tokens?: number;
    image_tokens?: number;
    cached_image_tokens?: number;
  };
  FallbackMove: {
    from: string;
    to: string;
    reason: string;
    count: number;
  };
  FirstAudio: {
    count: number;
    p50: number | null;
    p95: number | null;
    p99: number | null;
  };
  FirstAudioCourse: {
    grain: "day" | "hour" | "minute" | "second";
    step_s: number;
    times: number[];
    count: number[];
    p50: (number | null)[];
    p95: (number | null)[];
    p99: (number | null)[];
  };
  FirstAudioReport: {
    period: "15m" | "1h" | "24h" | "30d" | "7d" | "all" | "custom" | "month" | "today" | "week";
    from: number | null;
    to: number;
    project: string | null;
    all: Shapes["FirstAudio"];
    before: Shapes["FirstAudio"];
    by_stack: { [key: string]: Shapes["FirstAudio"] };
    by_project: { [key: string]: Shapes["FirstAudio"] };
    course: Shapes["FirstAudioCourse"];
  };
  FleetAccount: {
    account: string;
    kind: "budget" | "rate" | "slots";
    limit: number;
    used: number;
    open: number;
    shares: Shapes["FleetShare"][];
  };
  FleetMember: {
    instance: string;
    last_seen_s: number | null;
  };
  FleetPage: {
    members: Shapes["FleetMember"][];
    accounts: Shapes["FleetAccount"][];
    name: string;
    instance: string;
    problem: string;
    alone_s: number;
  };
  FleetShare: {
    instance: string;
    used: number;
    open: number;
  };
  Forecast: {
    month: string;
    days: number;
    day: number;
    project: string | null;
    total: Shapes["MonthEstimate"];
    budgeted: Shapes["MonthEstimate"] | null;
    projects: { [key: string]: Shapes["MonthEstimate"] };
  };
  GateState: {
    breaker: "closed" | "half_open" | "open";
    models: { [key: string]: "closed" | "half_open" | "open" };
    in_flight: number;
    bucket: Shapes["BucketState"] | null;
    slots: Shapes["ModelSlots"][];
  };
  HistogramBucket: {
    from_ms: number;
    to_ms: number;
    count: number;
  };
  HourLists: {
    times: number[];
    requests: number[];
    errors: number[];
    cost: number[];
    ttfb_p50: (number | null)[];
  };
  IncidentEntry: {
    id: string;
    rule: "budget_exceeded" | "budget_warning" | "certificate_expiring" | "error_rate" | "fallback_rate" | "first_audio_slow" | "gateway_degraded" | "journal_growing" | "key_expiring" | "prices_old" | "provider_failing" | "records_not_stored" | "slots_full" | "unpriced_models";
    subject: string;
    severity: "critical" | "warning";
    text: string;
    opened_at: number;
    closed_at: number | null;
    announced_at: number | null;
  };
  KeyRow: {
    key_id: string;
    name: string;
    project: string;
    key_masked: string;
    created_at: number | null;
    expires_at: number | null;
    daily_budget: number;
    weekly_budget: number;
    monthly_budget: number;
    total_budget: number;
    models: string[];
    modalities: ("llm" | "stt" | "tts")[];
    regions: string[];
    requests_per_minute: number | null;
    max_concurrent: number | null;
    spent_today: number;
    spent_total: number;
    budgets: Shapes["BudgetUse"][];
    source: "db" | "yaml";
    origin: string;
  };
  KeysPage: {
    keys: Shapes["KeyRow"][];
    projects: string[];
    auth_on: boolean;
  };
  LatencyPage: {
    models: { [key: string]: Shapes["ModelLatency"] };
    before: { [key: string]: Shapes["ModelLatency"] };
    first_audio: Shapes["FirstAudioReport"];
    lines: Shapes["TimeSeries"][];
    histograms: Shapes["ModelHistogram"][];
    ttfb_warning_ms: number;
  };
  LatestError: {
    code: string;
    timestamp: number;
  };
  LogRecord: {
    id: string;
    timestamp: number;
    project: string;
    modality: "llm" | "stt" | "tts";
    model_id: string;
    provider: string;
    cost_usd: number | null;
    total_latency_ms: number;
    ttfb_ms: number | null;
    gateway_ms: number | null;
    status: "cancelled" | "error" | "fallback" | "success";
    input_units: number;
    output_units: number;
    cached_input_units: number;
    unit: "audio_seconds" | "characters" | "tokens";
    wasted_units: number;
    wasted_usd: number | null;
    pricing_source: string;
    estimated_usd: number;
    fallback_from: string | null;
    attempts: Shapes["LoggedAttempt"][];
    error_code: string | null;
    refused: boolean;
    stream: boolean;
    session_id: string | null;
    turn_id: string | null;
    key_id: string | null;
  };
  LoggedAttempt: {
    model_id: string;
    outcome: string;
    started_ms: number;
    duration_ms: number;
    ttfb_ms: number | null;
    error_code: string | null;
    upstream_status: number | null;
    detail: string;
    ignored_settings: string[];
    voice: string | null;
    text_characters: number | null;
    input_units: number | null;
    output_units: number | null;
    cost_usd: number | null;
    pricing_source: string;
    estimated_usd: number;
    wasted_usd: number | null;
    cache: "" | "hit" | "miss";
    saved_usd: number;
    route: string;
    routing: string;
    lost_s: number | null;
  };
  LoginAnswer: {
    status: "logged_in" | "open";
    expires_at: number | null;
  };
  LoginEntry: {
    login_id: string;
    name: string;
    person_id: string | null;
    token_id: string | null;
    created_at: number;
    seen_at: number;
    expires_at: number;
    address: string;
    agent: string;
    this_one: boolean;
  };
  LogoutAnswer: {
    status: "logged_out";
    redirect: string | null;
  };
  MadeKey: {
    key_id: string;
    name: string;
    project: string;
    key_masked: string;
    created_at: number | null;
    expires_at: number | null;
    daily_budget: number;
    weekly_budget: number;
    monthly_budget: number;
    total_budget: number;
    models: string[];
    modalities: ("llm" | "stt" | "tts")[];
    regions: string[];
    requests_per_minute: number | null;
    max_concurrent: number | null;
    spent_today: number;
    spent_total: number;
    budgets: Shapes["BudgetUse"][];
    source: "db" | "yaml";
    key: string;
  };
  MadeToken: {
    token_id: string;
    name: string;
    token_masked: string;
    role: "admin" | "operator" | "viewer";
    projects: string[] | null;
    capture: boolean;
    created_at: number;
    created_by: string;
    expires_at: number | null;
    token: string;
  };
  MedianAndTail: {
    p50: number | null;
    p95: number | null;
  };
  ModelHistogram: {
    model: string;
    period: "15m" | "1h" | "24h" | "30d" | "7d" | "all" | "custom" | "month" | "today" | "week";
    project: string | null;
    ttfb: Shapes["Spread"];
    latency: Shapes["Spread"];
  };
  ModelLatency: {
    avg_ttfb_ms: number | null;
    avg_latency_ms: number | null;
    request_count: number;
    ttfb_percentiles: Shapes["Percentiles"];
    latency_percentiles: Shapes["Percentiles"];
  };
  ModelRow: {
    model_id: string;
    modality: "llm" | "stt" | "tts";
    provider: string;
    model: string;
    display_name: string;
    default_language: string | null;
    default_voice: string | null;
    aliases: string[];
    source: "db" | "yaml";
    origin: string;
    configured: boolean;
    wildcard: boolean;
    free: boolean;
    rates: { [key: string]: number };
    price_source: string;
    own_prices: string[];
  };
  ModelSlots: {
    provider: string;
    modality: "llm" | "stt" | "tts";
    model: string;
    most: number;
    in_use: number;
    source: "answer" | "refusal";
    age_s: number;
  };
  ModelsPage: {
    models: Shapes["ModelRow"][];
    providers: { [key: string]: ("llm" | "stt" | "tts")[] };
    fallbacks: { [key: string]: Shapes["Chain"] };
  };
  MonthEstimate: {
    spent: number;
    expected: number;
    low: number;
    high: number;
    budget: number | null;
    over_budget: boolean;
  };
  Mover: {
    model: string;
    cost: number;
    cost_yesterday: number;
    requests: number;
    requests_yesterday: number;
  };
  OutcomeBars: {
    ok: number[];
    failed: number[];
    rate_limited: number[];
    skipped: number[];
    cancelled: number[];
  };
  OutcomeTotals: {
    ok: number;
    failed: number;
    rate_limited: number;
    skipped: number;
    cancelled: number;
  };
  Overview: {
    total_requests: number;
    total_cost_today: number;
    total_cost_all: number;
    active_models: number;
    providers_configured: number;
    requests_today: number;
    errors_today: number;
    refused_today: number;
    fallbacks_today: number;
    cancelled_today: number;
    unpriced_today: number;
    active_requests: number;
    today: Shapes["DayFigures"];
    yesterday: Shapes["DayFigures"];
    hours: Shapes["HourLists"];
    movers: Shapes["Mover"][];
    budgets: Shapes["BudgetState"][];
    compared: Shapes["Comparison"];
  };
  PeoplePage: {
    tokens: Shapes["TokenEntry"][];
    people: Shapes["PersonEntry"][];
    logins: Shapes["LoginEntry"][];
    projects: string[];
    everybody: boolean;
    sign_in: boolean;
  };
  Percentiles: {
    p50: number | null;
    p95: number | null;
    p99: number | null;
  };
  PeriodFigures: {
    from: number | null;
    to: number;
    requests: number;
    errors: number;
    refused: number;
    fallbacks: number;
    cancelled: number;
    unpriced: number;
    cost: number;
    wasted: number;
    saved: number;
    ttfb: Shapes["Quantiles"];
    ttfb_by_modality: { [key: string]: Shapes["Quantiles"] };
    first_audio: Shapes["FirstAudio"];
  };
  PersonEntry: {
    person_id: string;
    name: string;
    issuer: string;
    subject: string;
    role: "admin" | "operator" | "viewer" | null;
    projects: string[] | null;
    capture: boolean;
    blocked: boolean;
    created_at: number;
    signed_in_at: number;
    seen_at: number;
    sessions: number;
  };
  PhraseCacheBody: {
    takes?: number;
    longest?: number;
    sentences?: boolean;
  };
  PhraseRules: {
    takes?: number;
    longest?: number;
    sentences?: boolean;
  };
  PlaygroundPage: {
    auth_on: boolean;
    models: { [key: string]: string[] };
    stacks: string[];
    projects: string[];
    voices: string[];
  };
  PriceBody: {
    unit: string;
    usd?: number | null;
    input?: number | null;
    cached_input?: number | null;
    cached_input_audio?: number | null;
    cached_input_image?: number | null;
    cache_write?: number | null;
    cache_write_long?: number | null;
    output?: number | null;
    input_audio?: number | null;
    input_image?: number | null;
    output_audio?: number | null;
    per_second?: number | null;
    per_search?: number | null;
    per_request?: number | null;
    min_seconds?: number | null;
    step_seconds?: number | null;
    above?: { [key: string]: number }[] | null;
    tiers?: { [key: string]: { [key: string]: unknown } } | null;
    regions?: { [key: string]: number } | null;
    addons?: { [key: string]: number } | null;
    valid_from?: string | null;
  };
  ProjectEntry: {
    id: string;
    project_id: string;
    name: string;
    description: string;
    daily_budget: number;
    weekly_budget: number;
    monthly_budget: number;
    total_budget: number;
    budget_action: "block" | "warn";
    default_stack: string;
    tags: string[];
    regions: string[];
    accent: string;
    phrase_cache: Shapes["PhraseRules"] | null;
    capture: Shapes["Capture"] | null;
    source: "db" | "yaml";
  };
  ProjectRow: {
    id: string;
    project_id: string;
    name: string;
    description: string;
    daily_budget: number;
    weekly_budget: number;
    monthly_budget: number;
    total_budget: number;
    budget_action: "block" | "warn";
    default_stack: string;
    tags: string[];
    regions: string[];
    accent: string;
    phrase_cache: Shapes["PhraseRules"] | null;
    capture: Shapes["Capture"] | null;
    source: "db" | "yaml";
    today_spend: number;
    requests_today: number;
    budget_status: "exceeded" | "ok" | "warning";
    share: number | null;
    budgets: Shapes["BudgetUse"][];
    fallbacks: { [key: string]: string[] };
    own_keys: string[];
    origin: string;
  };
  ProjectStats: {
    cost_today: number;
    requests_today: number;
  };
  Projects: {
    projects: Shapes["ProjectEntry"][];
    stats: { [key: string]: Shapes["ProjectStats"] };
  };
  ProjectsPage: {
    projects: Shapes["ProjectRow"][];
    stacks: string[];
  };
  ProviderHealth: {
    status: "failed" | "ok";
    latency_ms: number;
    message: string;
  };
  ProviderReliability: {
    provider: string;
    configured: boolean;
    enabled: boolean;
    breaker: "closed" | "half_open" | "open";
    models: { [key: string]: "closed" | "half_open" | "open" };
    in_flight: number;
    bucket: Shapes["BucketState"] | null;
    slots: Shapes["ModelSlots"][];
    project_gates: { [key: string]: Shapes["GateState"] };
    last_error: Shapes["LatestError"] | null;
    availability: number | null;
    totals: Shapes["OutcomeTotals"];
    bars: Shapes["OutcomeBars"];
  };
  ProviderRow: {
    provider_id: string;
    source: "db" | "yaml";
    api_key_masked: string;
    base_url: string | null;
    provider_type: string;
    type: "cloud" | "local";
    configured: boolean;
    enabled: boolean;
    key_error: string | null;
    models: number;
    requests_per_minute: number | null;
    max_concurrent: number | null;
    origin: string;
  };
  ProviderState: {
    configured: boolean;
    type: "cloud" | "local";
  };
  ProviderTypeEntry: {
    type: string;
    location: "cloud" | "local";
    modalities: ("llm" | "stt" | "tts")[];
  };
  ProvidersPage: {
    providers: Shapes["ProviderRow"][];
    types: Shapes["ProviderTypeEntry"][];
  };
  Quantiles: {
    p50: number | null;
    p95: number | null;
    p99: number | null;
  };
  ReceiverEntry: {
    receiver: string;
    type: "apprise" | "slack" | "webhook";
    waiting: number;
    oldest_at: number | null;
    tries: number;
    last_error: string;
  };
  Reconciled: {
    provider: string;
    modality: string;
    window: Shapes["Window"];
    threshold: number;
    rows: Shapes["Difference"][];
    total_cost_usd: Shapes["ComparedFigures"];
    flagged: number;
    left_out: number;
  };
  Reliability: {
    period: "15m" | "1h" | "24h" | "30d" | "7d" | "all" | "custom" | "month" | "today" | "week";
    grain: "day" | "hour";
    times: number[];
    providers: Shapes["ProviderReliability"][];
    fallbacks: Shapes["FallbackMove"][];
  };
  RequestDetail: {
    id: string;
    timestamp: number;
    project: string;
    modality: "llm" | "stt" | "tts";
    model_id: string;
    provider: string;
    cost_usd: number | null;
    total_latency_ms: number;
    ttfb_ms: number | null;
    gateway_ms: number | null;
    status: "cancelled" | "error" | "fallback" | "success";
    input_units: number;
    output_units: number;
    cached_input_units: number;
    unit: "audio_seconds" | "characters" | "tokens";
    wasted_units: number;
    wasted_usd: number | null;
    pricing_source: string;
    estimated_usd: number;
    fallback_from: string | null;
    attempts: Shapes["LoggedAttempt"][];
    error_code: string | null;
    refused: boolean;
    stream: boolean;
    session_id: string | null;
    turn_id: string | null;
    key_id: string | null;
    requested_model: string;
    endpoint: string;
    usage: Shapes["Usage"];
    measured_usage: Shapes["Usage"] | null;
    captured: "dropped" | "incomplete" | "stored" | null;
  };
  RuleEntry: {
    rule: "budget_exceeded" | "budget_warning" | "certificate_expiring" | "error_rate" | "fallback_rate" | "first_audio_slow" | "gateway_degraded" | "journal_growing" | "key_expiring" | "prices_old" | "provider_failing" | "records_not_stored" | "slots_full" | "unpriced_models";
    enabled: boolean;
    muted_until: number | null;
  };
  Said: {
    role: string;
    text: string;
    at_s?: number | null;
  };
  SessionDetail: {
    session_id: string;
    project: string;
    first_request_id: string;
    timestamp: number;
    length_ms: number;
    turns: number;
    requests: number;
    first_audio_p50_ms: number | null;
    first_audio_p95_ms: number | null;
    first_audio_max_ms: number | null;
    interruptions: number;
    fallbacks: number;
    errors: number;
    silence_ms: number | null;
    cost_usd: number;
    wasted_usd: number;
    unpriced_requests: number;
    is_cut: boolean;
    conversation: Shapes["TurnDetail"][];
    others: Shapes["LogRecord"][];
  };
  SessionState: {
    auth_on: boolean;
    authenticated: boolean;
    principal: "admin" | "anyone" | "key" | "person" | "token" | null;
    name: string;
    role: "admin" | "operator" | "viewer" | null;
    projects: string[] | null;
    capture: boolean;
    project: string | null;
    expires_at: number | null;
    sign_in: boolean;
  };
  SessionSummary: {
    session_id: string;
    project: string;
    first_request_id: string;
    timestamp: number;
    length_ms: number;
    turns: number;
    requests: number;
    first_audio_p50_ms: number | null;
    first_audio_p95_ms: number | null;
    first_audio_max_ms: number | null;
    interruptions: number;
    fallbacks: number;
    errors: number;
    silence_ms: number | null;
    cost_usd: number;
    wasted_usd: number;
    unpriced_requests: number;
    is_cut: boolean;
  };
  SetChain: {
    models: string[];
  };
  SettingSection: {
    name: string;
    values: Shapes["SettingValue"][];
  };
  SettingValue: {
    name: string;
    value: string | number | boolean | string[] | null;
    origin: string;
  };
  SettingsPage: {
    version: string;
    started_at: number;
    file: string | null;
    warnings: string[];
    sections: Shapes["SettingSection"][];
    fleet: Shapes["FleetPage"] | null;
  };
  Spread: {
    count: number;
    avg_ms: number | null;
    percentiles: Shapes["Percentiles"];
    buckets: Shapes["HistogramBucket"][];
  };
  TestOutcome: {
    receiver: string;
    status: "failed" | "sent";
    error: string;
    took_ms: number;
  };
  TestedReceivers: {
    receivers: Shapes["TestOutcome"][];
  };
  TimeLine: {
    name: string;
    count: number[];
    p50: (number | null)[];
    p95: (number | null)[];
    p99: (number | null)[];
  };
  TimeSeries: {
    metric: "cost" | "errors" | "latency" | "requests" | "ttfb";
    period: "15m" | "1h" | "24h" | "30d" | "7d" | "all" | "custom" | "month" | "today" | "week";
    from: number | null;
    to: number;
    by: string;
    project: string | null;
    model: string | null;
    grain: "day" | "hour" | "minute" | "second";
    step_s: number;
    times: number[];
    series: Shapes["TimeLine"][];
  };
  TokenEntry: {
    token_id: string;
    name: string;
    token_masked: string;
    role: "admin" | "operator" | "viewer";
    projects: string[] | null;
    capture: boolean;
    created_at: number;
    created_by: string;
    expires_at: number | null;
  };
  TurnDetail: {
    turn_id: string;
    session_id: string | null;
    project: string;
    first_request_id: string;
    timestamp: number;
    duration_ms: number;
    first_audio_ms: number | null;
    cost_usd: number;
    unpriced_requests: number;
    errors: number;
    fallbacks: number;
    interrupted: boolean;
    requests: number;
    models: { [key: string]: string };
    stages: Shapes["TurnStage"][];
    gaps: Shapes["TurnGap"][];
  };
  TurnGap: {
    kind: "app" | "end_of_turn";
    start_ms: number;
    duration_ms: number;
  };
  TurnStage: {
    request_id: string;
    modality: "llm" | "stt" | "tts";
    model_id: string;
    provider: string;
    status: "cancelled" | "error" | "fallback" | "success";
    error_code: string | null;
    fallback_from: string | null;
    start_ms: number;
    queue_ms: number;
    ttfb_ms: number | null;
    total_ms: number;
    gateway_ms: number | null;
    after_ms: number;
    cost_usd: number | null;
    attempts: Shapes["AttemptBar"][];
    shared: boolean;
  };
  TurnSummary: {
    turn_id: string;
    session_id: string | null;
    project: string;
    first_request_id: string;
    timestamp: number;
    duration_ms: number;
    first_audio_ms: number | null;
    cost_usd: number;
    unpriced_requests: number;
    errors: number;
    fallbacks: number;
    interrupted: boolean;
    requests: number;
    models: { [key: string]: string };
  };
  UpdateKey: {
    name?: string | null;
    expires_at?: number | null;
    daily_budget?: number | null;
    weekly_budget?: number | null;
    monthly_budget?: number | null;
    total_budget?: number | null;
    models?: string[] | null;
    modalities?: ("llm" | "stt" | "tts")[] | null;
    regions?: string[] | null;
    requests_per_minute?: number | null;
    max_concurrent?: number | null;
  };
  UpdateModel: {
    display_name?: string | null;
    default_language?: string | null;
    default_voice?: string | null;
    price?: Shapes["PriceBody"] | null;
  };
  UpdateProject: {
    name?: string | null;
    description?: string | null;
    daily_budget?: number | null;
    weekly_budget?: number | null;
    monthly_budget?: number | null;
    total_budget?: number | null;
    budget_action?: "block" | "warn";
    default_stack?: string | null;
    tags?: string[] | null;
    regions?: string[] | null;
    accent?: string | null;
    fallbacks?: { [key: string]: string[] } | null;
    phrase_cache?: Shapes["PhraseCacheBody"] | null;
    capture?: Shapes["CaptureBody"] | null;
  };
  UpdateProvider: {
    provider_type?: string;
    api_key?: string;
    base_url?: string | null;
  };
  Usage: {
    input_tokens?: number;
    cached_input_tokens?: number;
    cache_write_tokens?: number;
    output_tokens?: number;
    reasoning_tokens?: number | null;
    input_audio_tokens?: number;
    output_audio_tokens?: number;
    audio_seconds?: number;
    characters?: number;
    source?: "estimated" | "measured" | "vendor";
    dimensions?: Shapes["Dimensions"];
    vendor_figure?: Shapes["VendorFigure"] | null;
  };
  VendorCharge: {
    provider: string;
    model_id: string;
    modality: "llm" | "stt" | "tts";
    calls: number;
    cost: number;
    wasted: number;
    estimated: number;
    input_tokens: number;
    cached_input_tokens: number;
    output_tokens: number;
    audio_seconds: number;
    characters: number;
  };
  VendorFigure: {
    amount: number;
    unit: string;
  };
  Window: {
    start: string | null;
    end: string | null;
  };
}
