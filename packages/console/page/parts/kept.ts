/** Values that this tab keeps over a reload: the browser forgets them with the tab, and shows them to no other page. */

export function readKept<T>(name: string): T | undefined {
  try {
    const text = sessionStorage.getItem(name);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    // A browser may forbid storage: then it lasts as long as the page.
    return undefined;
  }
}

/** undefined: it is forgotten */
export function keep(name: string, value: unknown): void {
  try {
    if (value === undefined) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // It lasts as long as the page.
  }
}
