// The first page: the README with the problem in a picture, the four lines of code, and then when
// not to use Highwater.
import { sectionsOf, type SitePage, splitTitle } from "./markdown.ts";

/** What a reader should know before anything else. */
const FIRST = "When not to use it";

/** `readme`: with the site's links. `picture`: an SVG. */
export function homePage(readme: string, picture: string): SitePage {
  const { title, body: whole } = splitTitle(readme);
  const [intro, ...sections] = sectionsOf(whole);
  const [problem = "", ...promises] = (intro?.text ?? "").split("\n\n");
  const first = sections.find(({ heading }) => heading === FIRST);
  if (first === undefined) throw new Error(`the README has no section "${FIRST}"`);
  const others = sections.filter((section) => section !== first);
  // The picture of the parts, with the paragraph before it, is for readers who stay.
  const [, parts = 0] = promises.flatMap((part, at) => (part.startsWith("```") ? [at] : []));
  if (parts === 0) throw new Error("the README's introduction has no picture of the parts");
  const text = ({ heading, text: content }: { heading: string; text: string }): string =>
    `## ${heading}\n${content.trimEnd()}`;
  const body = [
    ...promises.slice(0, parts - 1),
    text(first),
    ...["## How it works", ...promises.slice(parts - 1).map((part) => part.trim()), ...others.map(text)],
  ];
  return {
    address: "/",
    title,
    body: `${body.join("\n\n")}\n`,
    extra: {
      template: "splash",
      hero: {
        tagline: problem.replaceAll("\n", " "),
        image: { html: picture },
        actions: [
          { text: "The guide", link: "/guide/", icon: "right-arrow" },
          { text: "Architecture", link: "/architecture/", variant: "minimal" },
          { text: "HTTP", link: "/reference/http/", variant: "minimal" },
        ],
      },
    },
  };
}
