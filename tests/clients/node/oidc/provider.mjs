// An OpenID provider on a free loopback port, with one client and two people. GW_URL: the gateway that signs people in with it.
// ID_TOKEN_ALG: how ID tokens are signed. A line on its standard input changes its keys: from then on it signs with others.
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

const gateway = process.env.GW_URL;
const algorithm = process.env.ID_TOKEN_ALG || "RS256";
// The library gives a gateway 2.5 s to take a logout, and does not repeat it. On a busy machine that is too short.
const after = AbortSignal.timeout.bind(AbortSignal);
AbortSignal.timeout = (ms) => after(10 * ms);
const groups = { ana: ["staff"], bob: ["visitors"] };

// By way of PEM: now and then Node 20 hangs for ever in exporting a key that it has just generated (one of some thousand keys).
const encoding = { privateKeyEncoding: { type: "pkcs8", format: "pem" }, publicKeyEncoding: { type: "spki", format: "pem" } };

function keys() {
  const kinds = { rsa: { modulusLength: 2048 }, ec: { namedCurve: "P-256" }, ed25519: {} };
  return Object.entries(kinds).map(([kind, options]) => {
    const pem = generateKeyPairSync(kind, { ...options, ...encoding }).privateKey;
    return createPrivateKey(pem).export({ format: "jwk" });
  });
}

function handler(issuer) {
  const provider = new Provider(issuer, configuration());
  provider.on("server_error", (_context, error) => console.error("server_error", error));
  provider.on("backchannel.error", (_context, error) => console.error("backchannel.error", error));
  return provider.callback();
}

const server = createServer((request, response) => handle(request, response));
let handle = (_request, response) => response.writeHead(503).end();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  handle = handler(issuer);
  console.log(issuer);
  createInterface({ input: process.stdin }).on("line", () => {
    handle = handler(issuer);
    console.log("changed");
  });
});

function configuration() {
  return {
    jwks: { keys: keys() },
    enabledJWA: { idTokenSigningAlgValues: ["RS256", "PS256", "ES256", "Ed25519", "HS256"] },
    clients: [
      {
        client_id: "gw",
        client_secret: process.env.CLIENT_SECRET,
        redirect_uris: [`${gateway}/api/oidc/callback`],
        post_logout_redirect_uris: [`${gateway}/`],
        backchannel_logout_uri: `${gateway}/api/oidc/backchannel-logout`,
        backchannel_logout_session_required: true,
        response_types: ["code"],
        grant_types: ["authorization_code"],
        id_token_signed_response_alg: algorithm,
      },
    ],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "groups"] },
    features: { devInteractions: { enabled: true }, backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true } },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, name: id, email: `${id}@shop.example`, email_verified: true, groups: groups[id] ?? [] }),
    }),
    // its own dispatcher refuses loopback addresses, where the gateway of a test is
    fetch: (url, { dispatcher: _, ...options }) => globalThis.fetch(url, options),
    pkce: { required: () => true },
    cookies: { keys: ["a test's key"] },
    ttl: { Session: 3600, Grant: 3600, Interaction: 600, AccessToken: 600, IdToken: 600, AuthorizationCode: 60 },
  };
}
