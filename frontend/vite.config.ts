import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The gateway's Content-Security-Policy allows files of its own origin and nothing inline, so nothing is inlined here.
export default defineConfig({
  plugins: [svelte()],
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
