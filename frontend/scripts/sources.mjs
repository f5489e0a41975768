// One digest over everything the build is made from. tests/browser/test_build.py computes the same.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ROOTS = ["index.html", "package.json", "package-lock.json", "public", "scripts", "src", "svelte.config.js", "tsconfig.json", "vite.config.ts"];

function* files(path) {
  let entries;
  try {
    entries = readdirSync(path, { withFileTypes: true });
  } catch (error) {
    if (error.code !== "ENOTDIR") throw error;
    yield path;
    return;
  }
  for (const entry of entries) if (entry.name !== "__pycache__") yield* files(join(path, entry.name));
}

const sha256 = (data) => createHash("sha256").update(data).digest("hex");

export function sourcesDigest() {
  const lines = ROOTS.flatMap((root) => [...files(root)]).map((path) => `${path} ${sha256(readFileSync(path))}`);
  return sha256(lines.sort().join("\n"));
}
