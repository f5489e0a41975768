// src/lib/types.gen.ts from the OpenAPI document on standard input: write_types.py sends it.
import { writeFileSync } from "node:fs";
import { json } from "node:stream/consumers";
import openapiTS, { astToString } from "openapi-typescript";

const shapes = await openapiTS(await json(process.stdin), { alphabetize: true, defaultNonNullable: false });
const head = "// Made by `npm run types` from the gateway's OpenAPI document. Not to be edited.\n\n";
writeFileSync("src/lib/types.gen.ts", head + astToString(shapes));
