// Made by `npm run types` from the gateway's OpenAPI document. Not to be edited.

export interface paths {
    "/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The dashboard for who accepts `text/html`, else the health object. */
        get: operations["front"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/costs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** As `/v1/costs`; `by_project` only without a project. */
        get: operations["dashboard_costs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/forecast": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What the UTC month will have cost, per project and in all, beside the budgets.
         * @description Each coming day is expected to be the mean of the same weekdays of the last four weeks.
         */
        get: operations["forecast"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/histogram": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How one model's times are spread; `model` is needed. */
        get: operations["histogram"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/latency": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** As `/v1/latency`. */
        get: operations["dashboard_latency"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Running and finished requests as they happen.
         * @description Server-sent events. `running` comes first and lists what runs; `started` is one call of a provider (a fallback brings another, with a higher `attempt`); `finished` is a log record. A client that does not read in time gets `dropped` with the number of events it has missed, and is disconnected.
         */
        get: operations["live"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Exchange the admin token for a session cookie.
         * @description The cookie lasts 7 days. After ten failed attempts from one address in a minute: 429.
         */
        post: operations["login"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End the session. */
        post: operations["logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** As `/v1/logs`. */
        get: operations["dashboard_logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/logs.csv": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The log as CSV for spreadsheets; what they would run as a formula has a quote before it. */
        get: operations["logs_csv"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/overview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The first page: today beside yesterday until the same time, the last 24 hours, every budget. */
        get: operations["overview"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pages/costs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was spent: in groups, over time, and where the month is going. */
        get: operations["page_costs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pages/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Keys, and the projects one may be for. */
        get: operations["page_keys"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pages/latency": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Percentiles of every model, and lines and histograms of one or two. */
        get: operations["page_latency"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pages/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Models with their prices, and the fallback chains. */
        get: operations["page_models"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pages/playground": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What can be tried. */
        get: operations["page_playground"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pages/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Projects with their day, and the stacks. */
        get: operations["page_projects"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pages/providers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Providers, and the types there are. */
        get: operations["page_providers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pages/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The configuration in force, each value with its origin; secrets are masked. */
        get: operations["page_settings"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** As `/v1/projects`. */
        get: operations["dashboard_projects"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/reliability": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * How the calls of each provider ended, its breaker and bucket now, and where requests went on.
         * @description One bar per UTC hour, for `month` per day.
         */
        get: operations["reliability"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/route": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who would answer a request now, and why each candidate would be tried or passed over. */
        get: operations["route"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A figure over time, split by provider, model, project or modality: a point per UTC hour or day. */
        get: operations["series"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who asks, and whether a credential is needed. */
        get: operations["session"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Providers, models and fallback chains. */
        get: operations["dashboard_status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/turns": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The newest turns of conversations. */
        get: operations["turns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/turns/{turn_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One turn: its requests and their attempts on one time line.
         * @description Where several sessions use the id, the one that used it last.
         */
        get: operations["turn"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the gateway runs. */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openai/v1/audio/speech": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Text to speech, in OpenAI's protocol.
         * @description Headers `X-GW-Project`, `X-GW-Session`, `X-GW-Turn` and `X-GW-Fallback: off` are read; `X-GW-Model`, `X-GW-Attempts`, `X-GW-Cost-USD` and `Server-Timing` tell who answered. A fault of the upstream's about the request itself keeps its status.
         */
        post: operations["speech_openai"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openai/v1/audio/transcriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Speech to text, in OpenAI's protocol.
         * @description Headers `X-GW-Project`, `X-GW-Session`, `X-GW-Turn` and `X-GW-Fallback: off` are read; `X-GW-Model`, `X-GW-Attempts`, `X-GW-Cost-USD` and `Server-Timing` tell who answered. A fault of the upstream's about the request itself keeps its status.
         */
        post: operations["transcriptions_openai"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openai/v1/audio/translations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Speech of any language to English text, in OpenAI's protocol.
         * @description Headers `X-GW-Project`, `X-GW-Session`, `X-GW-Turn` and `X-GW-Fallback: off` are read; `X-GW-Model`, `X-GW-Attempts`, `X-GW-Cost-USD` and `Server-Timing` tell who answered. A fault of the upstream's about the request itself keeps its status.
         */
        post: operations["translations_openai"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openai/v1/chat/completions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A language model's answer, in OpenAI's protocol.
         * @description Headers `X-GW-Project`, `X-GW-Session`, `X-GW-Turn` and `X-GW-Fallback: off` are read; `X-GW-Model`, `X-GW-Attempts`, `X-GW-Cost-USD` and `Server-Timing` tell who answered. A fault of the upstream's about the request itself keeps its status.
         */
        post: operations["chat_completions_openai"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openai/v1/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All models. */
        get: operations["list_models_openai"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openai/v1/models/{model_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One model, by its id or an alias. */
        get: operations["get_model_openai"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether new work should be sent here; 503 while draining, or while records could be lost.
         * @description 503 has the same body.
         */
        get: operations["ready"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audio/speech": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Text to speech, in OpenAI's protocol.
         * @description Headers `X-GW-Project`, `X-GW-Session`, `X-GW-Turn` and `X-GW-Fallback: off` are read; `X-GW-Model`, `X-GW-Attempts`, `X-GW-Cost-USD` and `Server-Timing` tell who answered. A fault of the upstream's about the request itself keeps its status.
         */
        post: operations["speech"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audio/transcriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Speech to text, in OpenAI's protocol.
         * @description Headers `X-GW-Project`, `X-GW-Session`, `X-GW-Turn` and `X-GW-Fallback: off` are read; `X-GW-Model`, `X-GW-Attempts`, `X-GW-Cost-USD` and `Server-Timing` tell who answered. A fault of the upstream's about the request itself keeps its status.
         */
        post: operations["transcriptions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audio/translations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Speech of any language to English text, in OpenAI's protocol.
         * @description Headers `X-GW-Project`, `X-GW-Session`, `X-GW-Turn` and `X-GW-Fallback: off` are read; `X-GW-Model`, `X-GW-Attempts`, `X-GW-Cost-USD` and `Server-Timing` tell who answered. A fault of the upstream's about the request itself keeps its status.
         */
        post: operations["translations"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit-log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Changes made through the API, the newest first. */
        get: operations["audit_log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/chat/completions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A language model's answer, in OpenAI's protocol.
         * @description Headers `X-GW-Project`, `X-GW-Session`, `X-GW-Turn` and `X-GW-Fallback: off` are read; `X-GW-Model`, `X-GW-Attempts`, `X-GW-Cost-USD` and `Server-Timing` tell who answered. A fault of the upstream's about the request itself keeps its status.
         */
        post: operations["chat_completions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/costs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was spent, by provider, model, project and modality. */
        get: operations["costs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/fallbacks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The fallback chain of each modality. */
        get: operations["list_fallbacks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/fallbacks/{modality}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Set a chain; it goes before the one of gw.yaml. */
        put: operations["set_fallbacks"];
        post?: never;
        /** Put the chain of gw.yaml in force again. */
        delete: operations["reset_fallbacks"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All project keys, masked. */
        get: operations["list_keys"];
        put?: never;
        /**
         * Make a key for a project.
         * @description The key stands in this answer and nowhere else.
         */
        post: operations["create_key"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys/{key_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke a key. */
        delete: operations["revoke_key"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/latency": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Time to first byte and total time per model id; `{}` when nothing was asked. */
        get: operations["latency"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Log records, the newest first. */
        get: operations["logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Prometheus text exposition.
         * @description Open to this machine when the gateway is bound to loopback.
         */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All models. */
        get: operations["list_models"];
        put?: never;
        /** Add a model. */
        post: operations["create_model"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models/{model_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One model, by its id or an alias. */
        get: operations["get_model"];
        put?: never;
        post?: never;
        /** Delete a model. */
        delete: operations["delete_model"];
        options?: never;
        head?: never;
        /** Change a model. */
        patch: operations["update_model"];
        trace?: never;
    };
    "/v1/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document. */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All projects and their day. */
        get: operations["list_projects"];
        put?: never;
        /** Add a project. */
        post: operations["create_project"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One project with its day so far. */
        get: operations["get_project"];
        put?: never;
        post?: never;
        /** Delete a project, and its keys with it. */
        delete: operations["delete_project"];
        options?: never;
        head?: never;
        /** Change a project. */
        patch: operations["update_project"];
        trace?: never;
    };
    "/v1/providers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All providers. */
        get: operations["list_providers"];
        put?: never;
        /** Add a provider. */
        post: operations["create_provider"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/providers/{provider_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One provider. */
        get: operations["get_provider"];
        put?: never;
        post?: never;
        /** Delete a provider. */
        delete: operations["delete_provider"];
        options?: never;
        head?: never;
        /**
         * Change a provider.
         * @description A stored key goes to another host only with a new `api_key`, or where `serve.provider_base_url_hosts` lists the host: else 400.
         */
        patch: operations["update_provider"];
        trace?: never;
    };
    "/v1/providers/{provider_id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ask the provider one cheap thing, within 10 s. */
        post: operations["test_provider"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/reconcile": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Compare what was recorded with a vendor's usage export, model by model.
         * @description `rows` in the vendor's canonical form (docs/reconcile.md), or the `content` of such a file.
         */
        post: operations["reconcile"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/requests/{record_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One log record with what was asked for and both counts of its usage. */
        get: operations["request"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Providers, and how many models and projects there are. */
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * Attempt
         * @description One upstream call, or a candidate that was passed over. Times count from the request's start. `cost_usd` is its part of
         *         the request's cost, where more than one may have had a part.
         */
        Attempt: {
            cost_usd: number | null;
            duration_ms: number;
            error_code: string | null;
            model_id: string;
            outcome: string;
            started_ms: number;
            ttfb_ms: number | null;
            upstream_status: number | null;
        };
        /**
         * AttemptBar
         * @description `wait_ms`: until the first content or the failure; `stream_ms`: from the first content to the end.
         */
        AttemptBar: {
            error_code: string | null;
            model_id: string;
            outcome: string;
            provider: string;
            /** @description Milliseconds */
            start_ms: number;
            /** @description Milliseconds */
            stream_ms: number;
            upstream_status: number | null;
            /** @description Milliseconds */
            wait_ms: number;
        };
        /**
         * AuditItem
         * @description `changes`: field → value, or for an update `{"from": …, "to": …}`; keys are redacted.
         */
        AuditItem: {
            /** @enum {unknown} */
            action: "create" | "delete" | "update";
            actor: string;
            changes: Record<string, never>;
            entity_id: string;
            /** @enum {unknown} */
            entity_type: "fallbacks" | "key" | "model" | "project" | "provider";
            id: number;
            /** @enum {unknown} */
            source: "api" | "cli" | "mcp";
            /** @description Unix seconds */
            timestamp: number;
        };
        /**
         * Bill
         * @description A vendor's usage: `rows` of the canonical form, or the `content` of a file of it.
         */
        Bill: {
            /** @default null */
            content?: string | null;
            /** @default null */
            end?: string | null;
            /**
             * @default csv
             * @enum {unknown}
             */
            format?: "csv" | "json";
            provider: string;
            /** @default null */
            rows?: {
                [key: string]: string | number | null;
            }[] | null;
            /** @default null */
            start?: string | null;
            /** @default 5 */
            threshold?: number;
        };
        /**
         * Bucket
         * @description A provider's `requests_per_minute` and what is left of it.
         */
        Bucket: {
            limit: number;
            remaining: number | null;
            reset_s: number | null;
        };
        /**
         * BudgetState
         * @description `share` of the daily budget that is spent; null without a budget.
         */
        BudgetState: {
            accent: string;
            /** @enum {unknown} */
            budget_action: "block" | "warn";
            /** @enum {unknown} */
            budget_status: "exceeded" | "ok" | "warning";
            /** @description USD */
            daily_budget: number;
            name: string;
            project: string;
            share: number | null;
            /** @description USD */
            spent: number;
        };
        /** Candidate */
        Candidate: {
            breaker: string;
            model: string;
            passed_over: string;
            provider: string;
            remaining: number | null;
        };
        /** Chain */
        Chain: {
            models: string[];
            /** @enum {unknown} */
            source: "db" | "yaml";
        };
        /** Chains */
        Chains: {
            fallbacks: {
                [key: string]: components["schemas"]["Chain"];
            };
        };
        /** CostGroup */
        CostGroup: {
            /** @description USD */
            cost: number;
            requests: number;
        };
        /**
         * Costs
         * @description Groups are ordered by cost, the dearest first. `unpriced_requests` have no known price and count 0 in `total`;
         *         `wasted` is the part of `total` that was paid and reached nobody.
         */
        Costs: {
            by_modality: {
                [key: string]: components["schemas"]["CostGroup"];
            };
            by_model: {
                [key: string]: components["schemas"]["CostGroup"];
            };
            by_project?: {
                [key: string]: components["schemas"]["CostGroup"];
            };
            by_provider: {
                [key: string]: components["schemas"]["CostGroup"];
            };
            /** @enum {unknown} */
            period: "all" | "month" | "today" | "week";
            project: string | null;
            requests: number;
            /** @description USD */
            total: number;
            unpriced_requests: number;
            /** @description USD */
            wasted: number;
        };
        /** CostsPage */
        CostsPage: {
            costs: components["schemas"]["Costs"];
            forecast: components["schemas"]["Forecast"];
            series: components["schemas"]["CountSeries"];
        };
        /**
         * CountLine
         * @description For `cost` (USD), `requests` and `errors`.
         */
        CountLine: {
            name: string;
            total: number;
            values: number[];
        };
        /**
         * CountSeries
         * @description The line with the largest total first.
         */
        CountSeries: {
            by: string;
            /** @enum {unknown} */
            grain: "day" | "hour";
            /** @enum {unknown} */
            metric: "cost" | "errors" | "requests";
            model: string | null;
            /** @enum {unknown} */
            period: "month" | "today" | "week";
            project: string | null;
            series: components["schemas"]["CountLine"][];
            times: number[];
        };
        /** CreateKey */
        CreateKey: {
            /** @default null */
            expires_at?: number | null;
            /** @default null */
            name?: string | null;
            /** @default null */
            project?: string | null;
        };
        /** CreateModel */
        CreateModel: {
            /** @default null */
            default_language?: string | null;
            /** @default null */
            default_voice?: string | null;
            /** @default null */
            display_name?: string | null;
            /** @enum {unknown} */
            modality: "llm" | "stt" | "tts";
            model_name: string;
            provider_id: string;
        };
        /** CreateProject */
        CreateProject: {
            /** @default null */
            accent?: string | null;
            /**
             * @default warn
             * @enum {unknown}
             */
            budget_action?: "block" | "warn";
            /** @default null */
            daily_budget?: number | null;
            /** @default null */
            default_stack?: string | null;
            /** @default null */
            description?: string | null;
            /** @default null */
            fallbacks?: {
                [key: string]: string[];
            } | null;
            /** @default null */
            name?: string | null;
            project_id: string;
            /** @default null */
            tags?: string[] | null;
        };
        /** CreateProvider */
        CreateProvider: {
            /** @default null */
            api_key?: string | null;
            /** @default null */
            base_url?: string | null;
            provider_id: string;
            /** @default null */
            provider_type?: string | null;
        };
        /** DashboardModel */
        DashboardModel: {
            /** @enum {unknown} */
            modality: "llm" | "stt" | "tts";
            provider: string;
        };
        /** DashboardStatus */
        DashboardStatus: {
            fallbacks: {
                [key: string]: string[];
            };
            models: {
                [key: string]: components["schemas"]["DashboardModel"];
            };
            providers: {
                [key: string]: components["schemas"]["ProviderState"];
            };
        };
        /** DayFigures */
        DayFigures: {
            cancelled: number;
            /** @description USD */
            cost: number;
            errors: number;
            fallbacks: number;
            requests: number;
            ttfb: components["schemas"]["MiddleAndTail"];
            ttfb_by_modality: {
                [key: string]: components["schemas"]["MiddleAndTail"];
            };
            /** @description USD */
            wasted: number;
        };
        /** Deleted */
        Deleted: {
            deleted: string;
        };
        /** Difference */
        Difference: {
            cause: string;
            cost_usd: components["schemas"]["Figures"];
            credits: number | null;
            flagged: boolean;
            /** @enum {unknown} */
            matched: "both" | "ours_only" | "theirs_only";
            model: string;
            n_requests: number | null;
            requests: number | null;
            units: {
                [key: string]: components["schemas"]["Figures"];
            };
        };
        /**
         * Error
         * @description The one error body everywhere outside vendors' dialects.
         */
        Error: {
            error: components["schemas"]["ErrorDetail"];
        };
        /**
         * ErrorDetail
         * @description Further members carry the facts of the error, such as `provider`, `retry_after_s` or `available`.
         */
        ErrorDetail: {
            code: string;
            message: string;
            param: string | null;
            request_id: string;
            type: string;
        };
        /**
         * FallbackMove
         * @description `reason`: how the call of `from` ended.
         */
        FallbackMove: {
            count: number;
            from: string;
            reason: string;
            to: string;
        };
        /** Figures */
        Figures: {
            diff: number;
            ours: number | null;
            percent: number | null;
            theirs: number | null;
        };
        /**
         * Forecast
         * @description Of the current UTC month (`YYYY-MM`), of which `day` is the running one. `budgeted`: the projects that have a budget
         *         together, null without any; `total` has a budget where all who spend have one.
         */
        Forecast: {
            budgeted: components["schemas"]["MonthEstimate"] | null;
            day: number;
            days: number;
            month: string;
            project: string | null;
            projects: {
                [key: string]: components["schemas"]["MonthEstimate"];
            };
            total: components["schemas"]["MonthEstimate"];
        };
        /**
         * Front
         * @description The health object, and whether there is a dashboard to show. `ok` is always true: Cartesia's SDK looks for it.
         */
        Front: {
            dashboard: string;
            ok: boolean;
            /** @enum {unknown} */
            status: "degraded" | "ok";
            uptime_seconds: number;
            version: string;
        };
        /** GateState */
        GateState: {
            /** @enum {unknown} */
            breaker: "closed" | "half_open" | "open";
            bucket: components["schemas"]["Bucket"] | null;
            in_flight: number;
        };
        /** GatewayStatus */
        GatewayStatus: {
            model_count: number;
            project_count: number;
            providers: {
                [key: string]: components["schemas"]["ProviderState"];
            };
        };
        /** Health */
        Health: {
            /** @enum {unknown} */
            status: "degraded" | "ok";
            uptime_seconds: number;
            version: string;
        };
        /**
         * HistogramBucket
         * @description `from_ms` <= time < `to_ms`. Edges are the same for every model.
         */
        HistogramBucket: {
            count: number;
            /** @description Milliseconds */
            from_ms: number;
            /** @description Milliseconds */
            to_ms: number;
        };
        /**
         * HourLists
         * @description 24 entries each, the current UTC hour last.
         */
        HourLists: {
            cost: number[];
            errors: number[];
            requests: number[];
            times: number[];
            ttfb_p50: (number | null)[];
        };
        /**
         * KeyEntry
         * @description `created_at` is null for a key of gw.yaml, `expires_at` for one that does not expire.
         */
        KeyEntry: {
            created_at: number | null;
            expires_at: number | null;
            key_id: string;
            key_masked: string;
            name: string;
            project: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
        };
        /** KeyPreview */
        KeyPreview: {
            would_delete: components["schemas"]["KeyPreviewed"];
        };
        /** KeyPreviewed */
        KeyPreviewed: {
            key_id: string;
            name: string;
            project: string;
        };
        /** KeyRow */
        KeyRow: {
            created_at: number | null;
            expires_at: number | null;
            key_id: string;
            key_masked: string;
            name: string;
            /** @description `gw.yaml:12`, `API` or `built in` */
            origin: string;
            project: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
        };
        /** Keys */
        Keys: {
            keys: components["schemas"]["KeyEntry"][];
        };
        /** KeysPage */
        KeysPage: {
            auth_on: boolean;
            keys: components["schemas"]["KeyRow"][];
            projects: string[];
        };
        /** LastError */
        LastError: {
            code: string;
            /** @description Unix seconds */
            timestamp: number;
        };
        /**
         * LatencyPage
         * @description `lines` and `histograms`: of each model that was asked for, in that order; `all`: of all models together.
         */
        LatencyPage: {
            all: components["schemas"]["TimeSeries"];
            histograms: components["schemas"]["ModelHistogram"][];
            lines: components["schemas"]["TimeSeries"][];
            models: {
                [key: string]: components["schemas"]["ModelLatency"];
            };
            /** @description Milliseconds */
            ttfb_warning_ms: number;
        };
        /**
         * ListedModel
         * @description As OpenAI's, Groq's and Anthropic's SDKs read it.
         */
        ListedModel: {
            created: number;
            created_at: string;
            display_name: string;
            id: string;
            /** @enum {unknown} */
            object: "model";
            owned_by: string;
            /** @enum {unknown} */
            type: "model";
        };
        /** Login */
        Login: {
            token: string;
        };
        /**
         * LoginAnswer
         * @description `open`: the gateway asks for no credential, so there is no session.
         */
        LoginAnswer: {
            expires_at: number | null;
            /** @enum {unknown} */
            status: "logged_in" | "open";
        };
        /** LogoutAnswer */
        LogoutAnswer: {
            /** @enum {unknown} */
            status: "logged_out";
        };
        /**
         * LogRecord
         * @description `cost_usd` is null where no price is known. `wasted_units` of the `unit` and `wasted_usd` of the cost reached nobody.
         */
        LogRecord: {
            attempts: components["schemas"]["Attempt"][];
            cached_input_units: number;
            cost_usd: number | null;
            error_code: string | null;
            fallback_from: string | null;
            gateway_ms: number | null;
            id: string;
            input_units: number;
            key_id: string | null;
            /** @enum {unknown} */
            modality: "llm" | "stt" | "tts";
            model_id: string;
            output_units: number;
            pricing_source: string;
            project: string;
            provider: string;
            session_id: string | null;
            /** @enum {unknown} */
            status: "cancelled" | "error" | "fallback" | "success";
            stream: boolean;
            /** @description Unix seconds */
            timestamp: number;
            total_latency_ms: number;
            ttfb_ms: number | null;
            turn_id: string | null;
            /** @enum {unknown} */
            unit: "audio_seconds" | "characters" | "tokens";
            wasted_units: number;
            wasted_usd: number | null;
        };
        /**
         * MadeKey
         * @description The only answer that shows the key.
         */
        MadeKey: {
            created_at: number | null;
            expires_at: number | null;
            key: string;
            key_id: string;
            key_masked: string;
            name: string;
            project: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
        };
        /** MiddleAndTail */
        MiddleAndTail: {
            p50: number | null;
            p95: number | null;
        };
        /** ModelCreated */
        ModelCreated: {
            created: boolean;
            model_id: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
        };
        /**
         * ModelEntry
         * @description `modality` is the first that the id serves, `modalities` are all.
         */
        ModelEntry: {
            modalities: ("llm" | "stt" | "tts")[];
            /** @enum {unknown} */
            modality: "llm" | "stt" | "tts";
            model: string;
            provider: string;
        };
        /** ModelHistogram */
        ModelHistogram: {
            latency: components["schemas"]["Spread"];
            model: string;
            /** @enum {unknown} */
            period: "month" | "today" | "week";
            project: string | null;
            ttfb: components["schemas"]["Spread"];
        };
        /** ModelLatency */
        ModelLatency: {
            avg_latency_ms: number | null;
            avg_ttfb_ms: number | null;
            latency_percentiles: components["schemas"]["Percentiles"];
            request_count: number;
            ttfb_percentiles: components["schemas"]["Percentiles"];
        };
        /**
         * ModelList
         * @description One body for many readers: `models` is the gateway's own map, `data` is for OpenAI's, Groq's and Anthropic's SDKs,
         *         `stt` and `tts` for Deepgram's. A request with an `xi-api-key` header gets a bare array, as ElevenLabs' SDK wants it.
         */
        ModelList: {
            data: components["schemas"]["ListedModel"][];
            first_id: string | null;
            has_more: boolean;
            last_id: string | null;
            models: {
                [key: string]: components["schemas"]["ModelEntry"];
            };
            /** @enum {unknown} */
            object: "list";
            project: string | null;
            stt: components["schemas"]["SpeechModel"][];
            tts: components["schemas"]["SpeechModel"][];
        };
        /** ModelPreview */
        ModelPreview: {
            would_delete: components["schemas"]["ModelPreviewed"];
        };
        /** ModelPreviewed */
        ModelPreviewed: {
            model_id: string;
        };
        /**
         * ModelRow
         * @description `rates`: USD per million of each unit that is billed; empty without a known price. `free`: runs on this machine.
         */
        ModelRow: {
            aliases: string[];
            configured: boolean;
            default_language: string | null;
            default_voice: string | null;
            display_name: string;
            free: boolean;
            /** @enum {unknown} */
            modality: "llm" | "stt" | "tts";
            model: string;
            model_id: string;
            /** @description `gw.yaml:12`, `API` or `built in` */
            origin: string;
            price_source: string;
            provider: string;
            rates: {
                [key: string]: number;
            };
            /** @enum {unknown} */
            source: "db" | "yaml";
        };
        /**
         * ModelsPage
         * @description `providers`: the modalities each offers.
         */
        ModelsPage: {
            fallbacks: {
                [key: string]: components["schemas"]["Chain"];
            };
            models: components["schemas"]["ModelRow"][];
            providers: {
                [key: string]: ("llm" | "stt" | "tts")[];
            };
        };
        /** ModelUpdated */
        ModelUpdated: {
            model_id: string;
            updated: boolean;
        };
        /**
         * MonthEstimate
         * @description `budget`: daily budget times days of the month, null without one. Four months of five end between `low` and
         *         `high`.
         */
        MonthEstimate: {
            budget: number | null;
            /** @description USD */
            expected: number;
            /** @description USD */
            high: number;
            /** @description USD */
            low: number;
            over_budget: boolean;
            /** @description USD */
            spent: number;
        };
        /**
         * Mover
         * @description A model's day and the same UTC hours of yesterday, the running hour whole.
         */
        Mover: {
            /** @description USD */
            cost: number;
            /** @description USD */
            cost_yesterday: number;
            model: string;
            requests: number;
            requests_yesterday: number;
        };
        /**
         * OneModel
         * @description For SDKs and the gateway's own clients alike.
         */
        OneModel: {
            created: number;
            created_at: string;
            display_name: string;
            id: string;
            modalities: ("llm" | "stt" | "tts")[];
            /** @enum {unknown} */
            modality: "llm" | "stt" | "tts";
            model: string;
            /** @enum {unknown} */
            object: "model";
            owned_by: string;
            provider: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
            /** @enum {unknown} */
            type: "model";
        };
        /** OutcomeBars */
        OutcomeBars: {
            cancelled: number[];
            failed: number[];
            ok: number[];
            rate_limited: number[];
            skipped: number[];
        };
        /** OutcomeTotals */
        OutcomeTotals: {
            cancelled: number;
            failed: number;
            ok: number;
            rate_limited: number;
            skipped: number;
        };
        /**
         * Overview
         * @description `yesterday` ends at the same time of day as `today`. `active_requests` are those of all
         *         projects.
         */
        Overview: {
            active_models: number;
            active_requests: number;
            budgets: components["schemas"]["BudgetState"][];
            cancelled_today: number;
            errors_today: number;
            fallbacks_today: number;
            hours: components["schemas"]["HourLists"];
            movers: components["schemas"]["Mover"][];
            providers_configured: number;
            requests_today: number;
            today: components["schemas"]["DayFigures"];
            /** @description USD */
            total_cost_all: number;
            /** @description USD */
            total_cost_today: number;
            total_requests: number;
            unpriced_today: number;
            yesterday: components["schemas"]["DayFigures"];
        };
        /** Percentiles */
        Percentiles: {
            p50: number | null;
            p95: number | null;
            p99: number | null;
        };
        /**
         * PlaygroundPage
         * @description `auth_on`: apps need a key; this page has its session. `voices`: aliases that every provider knows.
         */
        PlaygroundPage: {
            auth_on: boolean;
            models: {
                [key: string]: string[];
            };
            projects: string[];
            stacks: string[];
            voices: string[];
        };
        /** ProjectCosts */
        ProjectCosts: {
            by_model: {
                [key: string]: components["schemas"]["CostGroup"];
            };
            by_provider: {
                [key: string]: components["schemas"]["CostGroup"];
            };
            /** @description USD */
            total: number;
        };
        /** ProjectCreated */
        ProjectCreated: {
            created: boolean;
            project_id: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
        };
        /** ProjectDetail */
        ProjectDetail: {
            accent: string;
            /** @enum {unknown} */
            budget_action: "block" | "warn";
            /** @enum {unknown} */
            budget_status: "exceeded" | "ok" | "warning";
            costs_today: components["schemas"]["ProjectCosts"];
            /** @description USD */
            daily_budget: number;
            default_stack: string;
            description: string;
            id: string;
            name: string;
            project_id: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
            tags: string[];
            today: components["schemas"]["ProjectStats"];
            /** @description USD */
            today_spend: number;
        };
        /** ProjectEntry */
        ProjectEntry: {
            accent: string;
            /** @enum {unknown} */
            budget_action: "block" | "warn";
            /** @description USD */
            daily_budget: number;
            default_stack: string;
            description: string;
            id: string;
            name: string;
            project_id: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
            tags: string[];
        };
        /** ProjectPreview */
        ProjectPreview: {
            would_delete: components["schemas"]["ProjectPreviewed"];
        };
        /** ProjectPreviewed */
        ProjectPreviewed: {
            project_id: string;
        };
        /**
         * ProjectRow
         * @description `share` of the daily budget that is spent; null without one. `own_keys`: providers it has a key of its own for.
         */
        ProjectRow: {
            accent: string;
            /** @enum {unknown} */
            budget_action: "block" | "warn";
            /** @enum {unknown} */
            budget_status: "exceeded" | "ok" | "warning";
            /** @description USD */
            daily_budget: number;
            default_stack: string;
            description: string;
            fallbacks: {
                [key: string]: string[];
            };
            id: string;
            name: string;
            /** @description `gw.yaml:12`, `API` or `built in` */
            origin: string;
            own_keys: string[];
            project_id: string;
            requests_today: number;
            share: number | null;
            /** @enum {unknown} */
            source: "db" | "yaml";
            tags: string[];
            /** @description USD */
            today_spend: number;
        };
        /** Projects */
        Projects: {
            projects: components["schemas"]["ProjectEntry"][];
            stats: {
                [key: string]: components["schemas"]["ProjectStats"];
            };
        };
        /** ProjectsPage */
        ProjectsPage: {
            projects: components["schemas"]["ProjectRow"][];
            stacks: string[];
        };
        /** ProjectStats */
        ProjectStats: {
            /** @description USD */
            cost_today: number;
            requests_today: number;
        };
        /** ProjectUpdated */
        ProjectUpdated: {
            project_id: string;
            updated: boolean;
        };
        /** ProviderCreated */
        ProviderCreated: {
            api_key_masked: string;
            provider_id: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
        };
        /**
         * ProviderEntry
         * @description `key_error` says why the stored key cannot be used.
         */
        ProviderEntry: {
            api_key_masked: string;
            base_url: string | null;
            configured: boolean;
            enabled: boolean;
            key_error: string | null;
            provider_id: string;
            provider_type: string;
            /** @enum {unknown} */
            source: "db" | "yaml";
            /** @enum {unknown} */
            type: "cloud" | "local";
        };
        /** ProviderPreview */
        ProviderPreview: {
            would_delete: components["schemas"]["ProviderPreviewed"];
        };
        /** ProviderPreviewed */
        ProviderPreviewed: {
            models: string[];
            projects: string[];
            provider_id: string;
        };
        /**
         * ProviderReliability
         * @description `availability`: share of calls that were answered. `project_gates`: those of keys of a project's own.
         */
        ProviderReliability: {
            availability: number | null;
            bars: components["schemas"]["OutcomeBars"];
            /** @enum {unknown} */
            breaker: "closed" | "half_open" | "open";
            bucket: components["schemas"]["Bucket"] | null;
            configured: boolean;
            enabled: boolean;
            in_flight: number;
            last_error: components["schemas"]["LastError"] | null;
            project_gates: {
                [key: string]: components["schemas"]["GateState"];
            };
            provider: string;
            totals: components["schemas"]["OutcomeTotals"];
        };
        /**
         * ProviderRow
         * @description `models`: how many are configured.
         */
        ProviderRow: {
            api_key_masked: string;
            base_url: string | null;
            configured: boolean;
            enabled: boolean;
            key_error: string | null;
            max_concurrent: number | null;
            models: number;
            /** @description `gw.yaml:12`, `API` or `built in` */
            origin: string;
            provider_id: string;
            provider_type: string;
            requests_per_minute: number | null;
            /** @enum {unknown} */
            source: "db" | "yaml";
            /** @enum {unknown} */
            type: "cloud" | "local";
        };
        /** Providers */
        Providers: {
            providers: components["schemas"]["ProviderEntry"][];
        };
        /** ProvidersPage */
        ProvidersPage: {
            providers: components["schemas"]["ProviderRow"][];
            types: components["schemas"]["ProviderType"][];
        };
        /** ProviderState */
        ProviderState: {
            configured: boolean;
            /** @enum {unknown} */
            type: "cloud" | "local";
        };
        /** ProviderType */
        ProviderType: {
            /** @enum {unknown} */
            location: "cloud" | "local";
            modalities: ("llm" | "stt" | "tts")[];
            type: string;
        };
        /** ProviderUpdated */
        ProviderUpdated: {
            provider_id: string;
            updated: boolean;
        };
        /** Ready */
        Ready: {
            checks: components["schemas"]["ReadyChecks"];
            /** @enum {unknown} */
            status: "draining" | "not_ready" | "ready";
        };
        /** ReadyChecks */
        ReadyChecks: {
            draining: boolean;
            /** @enum {unknown} */
            records: "degraded" | "ok";
        };
        /** Reconciled */
        Reconciled: {
            flagged: number;
            modality: string;
            provider: string;
            rows: components["schemas"]["Difference"][];
            threshold: number;
            total_cost_usd: components["schemas"]["Figures"];
            window: components["schemas"]["Window"];
        };
        /** Reliability */
        Reliability: {
            fallbacks: components["schemas"]["FallbackMove"][];
            /** @enum {unknown} */
            grain: "day" | "hour";
            /** @enum {unknown} */
            period: "month" | "today" | "week";
            providers: components["schemas"]["ProviderReliability"][];
            times: number[];
        };
        /**
         * RequestDetail
         * @description `usage` counts; `measured_usage` is the gateway's own count where `usage` is the vendor's.
         */
        RequestDetail: {
            attempts: components["schemas"]["Attempt"][];
            cached_input_units: number;
            cost_usd: number | null;
            endpoint: string;
            error_code: string | null;
            fallback_from: string | null;
            gateway_ms: number | null;
            id: string;
            input_units: number;
            key_id: string | null;
            measured_usage: components["schemas"]["Usage"] | null;
            /** @enum {unknown} */
            modality: "llm" | "stt" | "tts";
            model_id: string;
            output_units: number;
            pricing_source: string;
            project: string;
            provider: string;
            requested_model: string;
            session_id: string | null;
            /** @enum {unknown} */
            status: "cancelled" | "error" | "fallback" | "success";
            stream: boolean;
            /** @description Unix seconds */
            timestamp: number;
            total_latency_ms: number;
            ttfb_ms: number | null;
            turn_id: string | null;
            /** @enum {unknown} */
            unit: "audio_seconds" | "characters" | "tokens";
            usage: components["schemas"]["Usage"];
            wasted_units: number;
            wasted_usd: number | null;
        };
        /** Route */
        Route: {
            answers: string | null;
            asked: string;
            candidates: components["schemas"]["Candidate"][];
            modality: string;
            project: string;
        };
        /**
         * SessionState
         * @description `principal` is null where a credential is asked for and none, or a wrong one, was sent.
         */
        SessionState: {
            auth_on: boolean;
            authenticated: boolean;
            expires_at: number | null;
            principal: ("admin" | "anyone" | "key") | null;
            project: string | null;
        };
        /** SetChain */
        SetChain: {
            models: string[];
        };
        /** SetChainAnswer */
        SetChainAnswer: {
            /** @enum {unknown} */
            modality: "llm" | "stt" | "tts";
            models: string[];
            /** @enum {unknown} */
            source: "db" | "yaml";
        };
        /** SettingSection */
        SettingSection: {
            name: string;
            values: components["schemas"]["SettingValue"][];
        };
        /** SettingsPage */
        SettingsPage: {
            file: string | null;
            sections: components["schemas"]["SettingSection"][];
            /** @description Unix seconds */
            started_at: number;
            version: string;
            warnings: string[];
        };
        /**
         * SettingValue
         * @description `origin`: `gw.yaml:12`, the name of a variable, or `default`.
         */
        SettingValue: {
            name: string;
            origin: string;
            value: string | number | boolean | string[] | null;
        };
        /**
         * SpeechModel
         * @description As Deepgram's SDK reads it.
         */
        SpeechModel: {
            architecture: string;
            canonical_name: string;
            languages: string[];
            name: string;
        };
        /** Spread */
        Spread: {
            avg_ms: number | null;
            buckets: components["schemas"]["HistogramBucket"][];
            count: number;
            percentiles: components["schemas"]["Percentiles"];
        };
        /**
         * TestResult
         * @description A provider that cannot be reached or refuses the key is `failed`, and the answer still a 200.
         */
        TestResult: {
            latency_ms: number;
            message: string;
            /** @enum {unknown} */
            status: "failed" | "ok";
        };
        /**
         * TimeLine
         * @description For `ttfb` and `latency`, in ms; null where nothing was measured. `count`: how many were.
         */
        TimeLine: {
            count: number[];
            name: string;
            p50: (number | null)[];
            p95: (number | null)[];
            p99: (number | null)[];
        };
        /** TimeSeries */
        TimeSeries: {
            by: string;
            /** @enum {unknown} */
            grain: "day" | "hour";
            /** @enum {unknown} */
            metric: "latency" | "ttfb";
            model: string | null;
            /** @enum {unknown} */
            period: "month" | "today" | "week";
            project: string | null;
            series: components["schemas"]["TimeLine"][];
            times: number[];
        };
        /** Turn */
        Turn: {
            /** @description USD */
            cost_usd: number;
            /** @description Milliseconds */
            duration_ms: number;
            errors: number;
            fallbacks: number;
            first_audio_ms: number | null;
            first_request_id: string;
            models: {
                [key: string]: string;
            };
            project: string;
            requests: number;
            session_id: string | null;
            stages: components["schemas"]["TurnStage"][];
            /** @description Unix seconds */
            timestamp: number;
            turn_id: string;
            unpriced_requests: number;
        };
        /**
         * TurnStage
         * @description One request. `queue_ms`: before its first candidate; `after_ms`: from the last candidate's end to its own.
         *
         *         `shared`: what a live transcription of many turns did in this one, from the end of the speech to its last final transcript;
         *         `request_id` is the session's, and `cost_usd` that of the speech.
         */
        TurnStage: {
            /** @description Milliseconds */
            after_ms: number;
            attempts: components["schemas"]["AttemptBar"][];
            cost_usd: number | null;
            error_code: string | null;
            fallback_from: string | null;
            gateway_ms: number | null;
            /** @enum {unknown} */
            modality: "llm" | "stt" | "tts";
            model_id: string;
            provider: string;
            /** @description Milliseconds */
            queue_ms: number;
            request_id: string;
            shared: boolean;
            /** @description Milliseconds */
            start_ms: number;
            /** @enum {unknown} */
            status: "cancelled" | "error" | "fallback" | "success";
            /** @description Milliseconds */
            total_ms: number;
            ttfb_ms: number | null;
        };
        /**
         * TurnSummary
         * @description Times count from the beginning of the turn's first request. `first_audio_ms`: the first synthesized audio.
         */
        TurnSummary: {
            /** @description USD */
            cost_usd: number;
            /** @description Milliseconds */
            duration_ms: number;
            errors: number;
            fallbacks: number;
            first_audio_ms: number | null;
            first_request_id: string;
            models: {
                [key: string]: string;
            };
            project: string;
            requests: number;
            session_id: string | null;
            /** @description Unix seconds */
            timestamp: number;
            turn_id: string;
            unpriced_requests: number;
        };
        /** UpdateModel */
        UpdateModel: {
            default_language?: string | null;
            default_voice?: string | null;
            display_name?: string | null;
        };
        /** UpdateProject */
        UpdateProject: {
            accent?: string | null;
            /** @enum {unknown} */
            budget_action?: "block" | "warn";
            daily_budget?: number | null;
            default_stack?: string | null;
            description?: string | null;
            fallbacks?: {
                [key: string]: string[];
            } | null;
            name?: string | null;
            tags?: string[] | null;
        };
        /** UpdateProvider */
        UpdateProvider: {
            api_key?: string;
            base_url?: string | null;
            provider_type?: string;
        };
        /**
         * Usage
         * @description Units used. Cached tokens are inside `input_tokens`; audio tokens are inside input and output tokens.
         */
        Usage: {
            /** @default 0 */
            audio_seconds?: number;
            /** @default 0 */
            cache_write_tokens?: number;
            /** @default 0 */
            cached_input_tokens?: number;
            /** @default 0 */
            characters?: number;
            /** @default 0 */
            input_audio_tokens?: number;
            /** @default 0 */
            input_tokens?: number;
            /** @default 0 */
            output_audio_tokens?: number;
            /** @default 0 */
            output_tokens?: number;
            /**
             * @default measured
             * @enum {unknown}
             */
            source?: "estimated" | "measured" | "vendor";
        };
        /** Window */
        Window: {
            end: string | null;
            start: string | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    front: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Front"];
                    "text/html": string;
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
        };
    };
    dashboard_costs: {
        parameters: {
            query?: {
                /** @description UTC days including today: `week` is 7, `month` 30. */
                period?: "today" | "week" | "month" | "all";
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Costs"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    forecast: {
        parameters: {
            query?: {
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Forecast"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    histogram: {
        parameters: {
            query?: {
                /** @description Only this model id. */
                model?: string;
                /** @description UTC days including today: `week` is 7, `month` 30. */
                period?: "today" | "week" | "month";
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelHistogram"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    dashboard_latency: {
        parameters: {
            query?: {
                /** @description UTC days including today: `week` is 7, `month` 30. */
                period?: "today" | "week";
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: components["schemas"]["ModelLatency"];
                    };
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    live: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": unknown;
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    login: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Login"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LoginAnswer"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too many; `Retry-After` says when to ask again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    logout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogoutAnswer"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    dashboard_logs: {
        parameters: {
            query?: {
                /** @description The id of the last record of the page read before. */
                before?: string;
                /** @description Only this error code. */
                error_code?: string;
                /** @description How many records, the newest first. */
                limit?: number;
                /** @description Only this modality. */
                modality?: "stt" | "llm" | "tts";
                /** @description Only this model id. */
                model?: string;
                /** @description Only what belongs to this project. */
                project?: string;
                /** @description Only this provider id. */
                provider?: string;
                /** @description Only ids that begin so. */
                q?: string;
                /** @description Only this session id. */
                session?: string;
                /** @description Only this status. */
                status?: "success" | "error" | "fallback" | "cancelled";
                /** @description Only this turn id. */
                turn?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogRecord"][];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    logs_csv: {
        parameters: {
            query?: {
                /** @description The id of the last record of the page read before. */
                before?: string;
                /** @description Only this error code. */
                error_code?: string;
                /** @description How many records, the newest first. */
                limit?: number;
                /** @description Only this modality. */
                modality?: "stt" | "llm" | "tts";
                /** @description Only this model id. */
                model?: string;
                /** @description Only what belongs to this project. */
                project?: string;
                /** @description Only this provider id. */
                provider?: string;
                /** @description Only ids that begin so. */
                q?: string;
                /** @description Only this session id. */
                session?: string;
                /** @description Only this status. */
                status?: "success" | "error" | "fallback" | "cancelled";
                /** @description Only this turn id. */
                turn?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/csv": string;
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    overview: {
        parameters: {
            query?: {
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Overview"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    page_costs: {
        parameters: {
            query?: {
                /** @description What a line stands for. */
                by?: "provider" | "model" | "project" | "modality" | "none";
                /** @description UTC days including today: `week` is 7, `month` 30. */
                period?: "today" | "week" | "month";
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CostsPage"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    page_keys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeysPage"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    page_latency: {
        parameters: {
            query?: {
                /** @description What is drawn. */
                metric?: "ttfb" | "latency";
                /** @description The model to draw; absent = the one that was asked most. */
                model?: string;
                /** @description A second model, to compare. */
                other?: string;
                /** @description UTC days including today: `week` is 7, `month` 30. */
                period?: "today" | "week" | "month";
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LatencyPage"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    page_models: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelsPage"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    page_playground: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlaygroundPage"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    page_projects: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectsPage"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    page_providers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProvidersPage"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    page_settings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingsPage"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    dashboard_projects: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Projects"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    reliability: {
        parameters: {
            query?: {
                /** @description UTC days including today: `week` is 7, `month` 30. */
                period?: "today" | "week" | "month";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Reliability"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    route: {
        parameters: {
            query?: {
                /** @description What is asked for. */
                modality?: "stt" | "llm" | "tts";
                /** @description As a caller would write it; empty is the project's default. */
                model?: string;
                /** @description Whose request it would be. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Route"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    series: {
        parameters: {
            query?: {
                /** @description What a line stands for. */
                by?: "provider" | "model" | "project" | "modality" | "none";
                /** @description What is drawn. */
                metric?: "cost" | "requests" | "errors" | "ttfb" | "latency";
                /** @description Only this model id. */
                model?: string;
                /** @description UTC days including today: `week` is 7, `month` 30. */
                period?: "today" | "week" | "month";
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CountSeries"] | components["schemas"]["TimeSeries"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    session: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionState"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    dashboard_status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DashboardStatus"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    turns: {
        parameters: {
            query?: {
                /** @description `first_request_id` of the last turn of the page read before. */
                before?: string;
                /** @description How many turns, the newest first. */
                limit?: number;
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TurnSummary"][];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    turn: {
        parameters: {
            query?: {
                /** @description Only what belongs to this project. */
                project?: string;
                /** @description Where several sessions use the turn id: this one. */
                session?: string;
            };
            header?: never;
            path: {
                /** @description The turn's id: the one the app sent, else the one it was given. */
                turn_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Turn"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    speech_openai: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "model": "sim/tone",
                 *       "input": "Hello",
                 *       "voice": "alloy"
                 *     }
                 */
                "application/json": {
                    input: string;
                    /** @description `<provider>/<model>`, an alias, a stack, or a bare model name; absent = the project's default. */
                    model?: string | null;
                    response_format?: string | null;
                    speed?: number | null;
                    /** @enum {unknown} */
                    stream_format?: "audio" | "sse" | null;
                    /** @description A voice of the provider, an alias of gw.yaml, or `{"id": …}`. */
                    voice?: unknown;
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "audio/*": string;
                    "text/event-stream": unknown;
                };
            };
            /** @description The request is at fault. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The project has reached its daily budget. */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too many; `Retry-After` says when to ask again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description A stored key cannot be decrypted, or a fault of the gateway's own. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The engine of a local provider is not installed. */
            501: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate failed. */
            502: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate was too slow. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    transcriptions_openai: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    file: string;
                    language?: string;
                    /** @description `<provider>/<model>`, an alias, a stack, or a bare model name; absent = the project's default. */
                    model?: string | null;
                    prompt?: string;
                    /** @default json */
                    response_format?: string;
                    stream?: string;
                    temperature?: number;
                    "timestamp_granularities[]"?: ("word" | "segment")[];
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        text: string;
                    };
                    "text/event-stream": unknown;
                    "text/plain": string;
                };
            };
            /** @description The request is at fault. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The project has reached its daily budget. */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too many; `Retry-After` says when to ask again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description A stored key cannot be decrypted, or a fault of the gateway's own. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The engine of a local provider is not installed. */
            501: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate failed. */
            502: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate was too slow. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    translations_openai: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    file: string;
                    language?: string;
                    /** @description `<provider>/<model>`, an alias, a stack, or a bare model name; absent = the project's default. */
                    model?: string | null;
                    prompt?: string;
                    /** @default json */
                    response_format?: string;
                    stream?: string;
                    temperature?: number;
                    "timestamp_granularities[]"?: ("word" | "segment")[];
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        text: string;
                    };
                    "text/event-stream": unknown;
                    "text/plain": string;
                };
            };
            /** @description The request is at fault. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The project has reached its daily budget. */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too many; `Retry-After` says when to ask again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description A stored key cannot be decrypted, or a fault of the gateway's own. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The engine of a local provider is not installed. */
            501: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate failed. */
            502: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate was too slow. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    chat_completions_openai: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "model": "sim/echo",
                 *       "messages": [
                 *         {
                 *           "role": "user",
                 *           "content": "Hello"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": {
                    max_completion_tokens?: number | null;
                    max_tokens?: number | null;
                    messages: {
                        role: string;
                    }[];
                    /** @description `<provider>/<model>`, an alias, a stack, or a bare model name; absent = the project's default. */
                    model?: string | null;
                    /** @description Answer as server-sent events. */
                    stream?: boolean | null;
                    stream_options?: {
                        include_usage?: boolean;
                    } | null;
                    tools?: unknown[] | null;
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        choices: Record<string, never>[];
                        created?: number;
                        id?: string;
                        model?: string;
                        object?: string;
                        usage?: Record<string, never>;
                    };
                    "text/event-stream": unknown;
                };
            };
            /** @description The request is at fault. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The project has reached its daily budget. */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too many; `Retry-After` says when to ask again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description A stored key cannot be decrypted, or a fault of the gateway's own. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The engine of a local provider is not installed. */
            501: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate failed. */
            502: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate was too slow. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    list_models_openai: {
        parameters: {
            query?: {
                /** @description Only those of this project's default stack. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelList"] | Record<string, never>[];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    get_model_openai: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `<provider>/<model>`; the slash may stand as it is or as `%2F`.
                 * @example sim/echo
                 */
                model_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OneModel"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    ready: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ready"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ready"];
                };
            };
        };
    };
    speech: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "model": "sim/tone",
                 *       "input": "Hello",
                 *       "voice": "alloy"
                 *     }
                 */
                "application/json": {
                    input: string;
                    /** @description `<provider>/<model>`, an alias, a stack, or a bare model name; absent = the project's default. */
                    model?: string | null;
                    response_format?: string | null;
                    speed?: number | null;
                    /** @enum {unknown} */
                    stream_format?: "audio" | "sse" | null;
                    /** @description A voice of the provider, an alias of gw.yaml, or `{"id": …}`. */
                    voice?: unknown;
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "audio/*": string;
                    "text/event-stream": unknown;
                };
            };
            /** @description The request is at fault. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The project has reached its daily budget. */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too many; `Retry-After` says when to ask again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description A stored key cannot be decrypted, or a fault of the gateway's own. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The engine of a local provider is not installed. */
            501: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate failed. */
            502: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate was too slow. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    transcriptions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    file: string;
                    language?: string;
                    /** @description `<provider>/<model>`, an alias, a stack, or a bare model name; absent = the project's default. */
                    model?: string | null;
                    prompt?: string;
                    /** @default json */
                    response_format?: string;
                    stream?: string;
                    temperature?: number;
                    "timestamp_granularities[]"?: ("word" | "segment")[];
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        text: string;
                    };
                    "text/event-stream": unknown;
                    "text/plain": string;
                };
            };
            /** @description The request is at fault. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The project has reached its daily budget. */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too many; `Retry-After` says when to ask again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description A stored key cannot be decrypted, or a fault of the gateway's own. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The engine of a local provider is not installed. */
            501: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate failed. */
            502: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate was too slow. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    translations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    file: string;
                    language?: string;
                    /** @description `<provider>/<model>`, an alias, a stack, or a bare model name; absent = the project's default. */
                    model?: string | null;
                    prompt?: string;
                    /** @default json */
                    response_format?: string;
                    stream?: string;
                    temperature?: number;
                    "timestamp_granularities[]"?: ("word" | "segment")[];
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        text: string;
                    };
                    "text/event-stream": unknown;
                    "text/plain": string;
                };
            };
            /** @description The request is at fault. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The project has reached its daily budget. */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too many; `Retry-After` says when to ask again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description A stored key cannot be decrypted, or a fault of the gateway's own. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The engine of a local provider is not installed. */
            501: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate failed. */
            502: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate was too slow. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    audit_log: {
        parameters: {
            query?: {
                /** @description Only this kind of change. */
                action?: "create" | "update" | "delete";
                /** @description The id of the last entry of the page read before. */
                before?: number;
                /** @description Only the entity of this id. */
                entity_id?: string;
                /** @description Only this kind of entity. */
                entity_type?: "provider" | "model" | "project" | "key" | "fallbacks";
                /** @description How many entries. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditItem"][];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    chat_completions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "model": "sim/echo",
                 *       "messages": [
                 *         {
                 *           "role": "user",
                 *           "content": "Hello"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": {
                    max_completion_tokens?: number | null;
                    max_tokens?: number | null;
                    messages: {
                        role: string;
                    }[];
                    /** @description `<provider>/<model>`, an alias, a stack, or a bare model name; absent = the project's default. */
                    model?: string | null;
                    /** @description Answer as server-sent events. */
                    stream?: boolean | null;
                    stream_options?: {
                        include_usage?: boolean;
                    } | null;
                    tools?: unknown[] | null;
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        choices: Record<string, never>[];
                        created?: number;
                        id?: string;
                        model?: string;
                        object?: string;
                        usage?: Record<string, never>;
                    };
                    "text/event-stream": unknown;
                };
            };
            /** @description The request is at fault. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The project has reached its daily budget. */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too many; `Retry-After` says when to ask again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description A stored key cannot be decrypted, or a fault of the gateway's own. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The engine of a local provider is not installed. */
            501: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate failed. */
            502: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Every candidate was too slow. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    costs: {
        parameters: {
            query?: {
                /** @description UTC days including today: `week` is 7, `month` 30. */
                period?: "today" | "week" | "month" | "all";
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Costs"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    list_fallbacks: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Chains"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    set_fallbacks: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description `stt`, `llm` or `tts`. */
                modality: "stt" | "llm" | "tts";
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetChain"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SetChainAnswer"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    reset_fallbacks: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description `stt`, `llm` or `tts`. */
                modality: "stt" | "llm" | "tts";
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SetChainAnswer"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    list_keys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Keys"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    create_key: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateKey"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MadeKey"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    revoke_key: {
        parameters: {
            query?: {
                /** @description true, false, 1 or 0 in any case. Without it nothing is deleted and the answer says what would be. */
                confirm?: string;
            };
            header?: never;
            path: {
                /** @description The key's id. */
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyPreview"] | components["schemas"]["Deleted"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    latency: {
        parameters: {
            query?: {
                /** @description UTC days including today: `week` is 7, `month` 30. */
                period?: "today" | "week" | "month";
                /** @description Only what belongs to this project. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: components["schemas"]["ModelLatency"];
                    };
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    logs: {
        parameters: {
            query?: {
                /** @description The id of the last record of the page read before. */
                before?: string;
                /** @description Only this error code. */
                error_code?: string;
                /** @description How many records, the newest first. */
                limit?: number;
                /** @description Only this modality. */
                modality?: "stt" | "llm" | "tts";
                /** @description Only this model id. */
                model?: string;
                /** @description Only what belongs to this project. */
                project?: string;
                /** @description Only this provider id. */
                provider?: string;
                /** @description Only ids that begin so. */
                q?: string;
                /** @description Only this session id. */
                session?: string;
                /** @description Only this status. */
                status?: "success" | "error" | "fallback" | "cancelled";
                /** @description Only this turn id. */
                turn?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogRecord"][];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    list_models: {
        parameters: {
            query?: {
                /** @description Only those of this project's default stack. */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelList"] | Record<string, never>[];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    create_model: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateModel"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelCreated"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description It exists already, or something still needs it. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    get_model: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `<provider>/<model>`; the slash may stand as it is or as `%2F`.
                 * @example sim/echo
                 */
                model_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OneModel"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    delete_model: {
        parameters: {
            query?: {
                /** @description true, false, 1 or 0 in any case. Without it nothing is deleted and the answer says what would be. */
                confirm?: string;
            };
            header?: never;
            path: {
                /**
                 * @description `<provider>/<model>`; the slash may stand as it is or as `%2F`.
                 * @example sim/echo
                 */
                model_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelPreview"] | components["schemas"]["Deleted"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    update_model: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `<provider>/<model>`; the slash may stand as it is or as `%2F`.
                 * @example sim/echo
                 */
                model_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateModel"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelUpdated"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    list_projects: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Projects"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    create_project: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateProject"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectCreated"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description It exists already, or something still needs it. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    get_project: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The project's id.
                 * @example default
                 */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectDetail"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    delete_project: {
        parameters: {
            query?: {
                /** @description true, false, 1 or 0 in any case. Without it nothing is deleted and the answer says what would be. */
                confirm?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The project's id.
                 * @example default
                 */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectPreview"] | components["schemas"]["Deleted"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    update_project: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The project's id.
                 * @example default
                 */
                project_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateProject"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectUpdated"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    list_providers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Providers"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    create_provider: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateProvider"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderCreated"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description It exists already, or something still needs it. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    get_provider: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The provider's id.
                 * @example sim
                 */
                provider_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderEntry"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    delete_provider: {
        parameters: {
            query?: {
                /** @description As `confirm`: let the provider's models go too. Without it a provider that has models is refused. */
                cascade?: string;
                /** @description true, false, 1 or 0 in any case. Without it nothing is deleted and the answer says what would be. */
                confirm?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The provider's id.
                 * @example sim
                 */
                provider_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderPreview"] | components["schemas"]["Deleted"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description It exists already, or something still needs it. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    update_provider: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The provider's id.
                 * @example sim
                 */
                provider_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateProvider"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderUpdated"];
                };
            };
            /** @description The request is at fault. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description A stored key cannot be decrypted, or a fault of the gateway's own. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    test_provider: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The provider's id.
                 * @example sim
                 */
                provider_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TestResult"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    reconcile: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Bill"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Reconciled"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    request: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id that the request's answer carried as `X-Request-Id`. */
                record_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RequestDetail"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description There is no such thing; the body lists what there is. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Overloaded, stopping, or the usage store is unavailable. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GatewayStatus"];
                };
            };
            /** @description No credential, or a wrong one. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The credential does not have the right, the entry is defined in gw.yaml, or the page is a foreign one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description The request is at fault: `param` names the field. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
}
