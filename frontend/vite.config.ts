import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

/** Leave out uPlot's bars, steps and splines, which no chart here has: it registers them where a bundler cannot see that they are unused. */
const onlyLines: Plugin = {
  name: "only-lines",
  transform(code, id) {
    if (!id.endsWith("uPlot.esm.js")) return;
    return ["stepped = stepped", "bars    = bars", "spline  = monotoneCubic"].reduce((text, path) => {
      const line = `(paths.${path});`;
      if (!text.includes(line)) throw new Error(`uPlot has changed: ${line} is not in it`);
      return text.replace(line, "");
    }, code);
  },
};

// The gateway's Content-Security-Policy allows files of its own origin and nothing inline, so nothing is inlined here.
export default defineConfig({
  plugins: [svelte(), onlyLines],
  build: {
    outDir: "build",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        hashCharacters: "hex",
        // The pages share so much that one file of them is smaller than each alone; charts and audio are fetched when needed.
        codeSplitting: { groups: [{ name: "pages", test: /src\/(pages|components|lib)\/(?!Latency|FirstAudio|LineChart|Playground|Snippets|audio)/ }] },
      },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080", "/v1": "http://127.0.0.1:8080" } },
});
