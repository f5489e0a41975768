// After `vite build`: compress, write build.json, and put the result in the place of ../frontend_dist in one step.
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "fflate";
import { sourcesDigest } from "./sources.mjs";

const BUILT = "build";
const OUT = process.env.GW_FRONTEND_OUT ?? "../frontend_dist";
const COMPRESSED = /\.(js|css|html|svg)$/;
const SMALLEST = 1_000;

// fflate and not zlib: its output does not depend on the processor or on Node's version.
let total = 0;
for (const entry of readdirSync(BUILT, { withFileTypes: true, recursive: true })) {
  const path = join(entry.parentPath, entry.name);
  if (!entry.isFile() || !COMPRESSED.test(path)) continue;
  const body = readFileSync(path);
  const packed = gzipSync(body, { level: 9, mem: 12, mtime: 0 });
  if (/\.(js|css)$/.test(path)) total += packed.length;
  if (body.length >= SMALLEST) writeFileSync(`${path}.gz`, packed);
}
writeFileSync(join(BUILT, "build.json"), `${JSON.stringify({ sources: sourcesDigest() })}\n`);

const next = `${OUT}.next`;
const old = `${OUT}.old`;
rmSync(next, { recursive: true, force: true });
rmSync(old, { recursive: true, force: true });
cpSync(BUILT, next, { recursive: true });
if (existsSync(OUT)) renameSync(OUT, old);
renameSync(next, OUT);
rmSync(old, { recursive: true, force: true });
rmSync(BUILT, { recursive: true, force: true });
console.log(`${relative("..", OUT)}: JS and CSS ${(total / 1000).toFixed(1)} kB compressed`);
