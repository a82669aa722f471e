// The site is made of what `prepare` has written into .tmp: pages, files, and the sidebar.
import { readFileSync } from "node:fs";
import starlight from "@astrojs/starlight";
import { defineConfig, passthroughImageService } from "astro/config";

const sidebar = JSON.parse(readFileSync(new URL(".tmp/sidebar.json", import.meta.url), "utf8"));

export default defineConfig({
  publicDir: ".tmp/public",
  cacheDir: ".tmp/cache",
  trailingSlash: "always",
  image: { service: passthroughImageService() },
  integrations: [
    starlight({
      title: "Highwater",
      description: "PostgreSQL transactions that are committed at once, and durable across regions later.",
      sidebar,
      customCss: ["./src/site.css"],
      head: [{ tag: "script", attrs: { src: "/languages.js", defer: true } }],
      markdown: { processedDirs: ["./.tmp/content"] },
    }),
  ],
});
