// A visitor with a keyboard and a screen reader: presses keys alone, and knows of the page what
// Chromium's accessibility tree says of the element that has the focus.
import assert from "node:assert/strict";
import { eventually } from "@highwater/lab-tools/process";
import type { Page } from "@highwater/lab-tools/browser";

export interface Focused {
  readonly role: string;
  readonly name: string;
}

/** More presses than any view has stops. */
const MAX_STOPS = 200;
/** The first stop of every view. */
const SKIP = "Skip to the content";

/** Whether the element with the focus is on the screen, and shows that it has it. */
const STOP = `(() => {
  const element = document.activeElement;
  const { top, left, bottom, right, width, height } = element.getBoundingClientRect();
  const { outlineStyle } = getComputedStyle(element);
  const isOnScreen = width > 0 && height > 0 && top < innerHeight && left < innerWidth && bottom > 0 && right > 0;
  return { isOnScreen, isMarked: outlineStyle !== "none" };
})()`;

/** Elements that Tab reaches. */
const STOPS =
  "Array.from(document.querySelectorAll('a[href], button, input, select, summary, [tabindex=\"0\"]')).filter((one) => !one.disabled && one.checkVisibility()).length";

const isNamed = ({ name }: Focused, wanted: RegExp | string): boolean =>
  typeof wanted === "string" ? name === wanted : wanted.test(name);

export class Keyboard {
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  /** The role and name that a screen reader says. */
  async focused(): Promise<Focused> {
    const session = await this.#page.context().newCDPSession(this.#page);
    try {
      const { result } = await session.send("Runtime.evaluate", { expression: "document.activeElement" });
      const { nodes } = await session.send("Accessibility.getPartialAXTree", {
        ...(result.objectId === undefined ? {} : { objectId: result.objectId }),
        fetchRelatives: false,
      });
      const text = (value: unknown): string => (typeof value === "string" ? value : "");
      return { role: text(nodes[0]?.role?.value), name: text(nodes[0]?.name?.value) };
    } finally {
      await session.detach();
    }
  }

  press(...keys: readonly string[]): Promise<void> {
    return keys.reduce((before, key) => before.then(() => this.#page.keyboard.press(key)), Promise.resolve());
  }

  type(text: string): Promise<void> {
    return this.#page.keyboard.type(text);
  }

  /** Goes on to an element. Errors: there is none in a whole round. */
  async goTo(role: string, name: RegExp | string, key: "Tab" | "Shift+Tab" = "Tab"): Promise<void> {
    const passed: string[] = [];
    for (let stops = 0; stops < MAX_STOPS; stops++) {
      await this.press(key);
      const focused = await this.focused();
      if (focused.role === role && isNamed(focused, name)) return;
      passed.push(`${focused.role} "${focused.name}"`);
    }
    assert.fail(`${key} reaches no ${role} ${String(name)}, but ${[...new Set(passed)].join(", ")}`);
  }

  /** Until the page has moved the focus to what was opened, where the reader goes on. */
  async untilOn(role: string, name: RegExp | string): Promise<void> {
    let last: Focused | undefined;
    const isThere = async (): Promise<boolean> => {
      last = await this.focused();
      return last.role === role && isNamed(last, name);
    };
    await eventually(`the focus is on the ${role} ${String(name)}`, isThere).catch((cause: unknown) => {
      throw new Error(`The focus is on the ${String(last?.role)} "${String(last?.name)}".`, { cause });
    });
  }

  /** Opens a view by its link, which lies before the content. */
  async open(view: string): Promise<void> {
    await this.goTo("link", view, "Shift+Tab");
    await this.press("Enter");
    await this.#page.getByRole("heading", { name: view, level: 1 }).waitFor();
    await this.untilOn("heading", view);
  }

  /** Every stop of the view, once around. Each has a name, is on the screen and is marked. */
  async goAround(where: string): Promise<Focused[]> {
    await this.goTo("link", SKIP);
    const expected = await this.#page.evaluate<number>(STOPS);
    const stops: Focused[] = [{ role: "link", name: SKIP }];
    for (;;) {
      await this.press("Tab");
      const focused = await this.focused();
      if (focused.name === SKIP) break;
      // After the last element the focus is on the page as a whole for one press.
      if (await this.#page.evaluate<boolean>("document.activeElement === document.body")) continue;
      const what = `${where}: ${focused.role} "${focused.name}"`;
      assert.notEqual(focused.name.trim(), "", `${what} has no name`);
      const state = await this.#page.evaluate<{ isOnScreen: boolean; isMarked: boolean }>(STOP);
      assert.deepEqual(state, { isOnScreen: true, isMarked: true }, what);
      stops.push(focused);
      assert.ok(stops.length < MAX_STOPS, `${where} does not come around`);
    }
    assert.equal(stops.length, expected, `${where}: ${stops.map(({ name }) => name).join(", ")}`);
    return stops;
  }
}
