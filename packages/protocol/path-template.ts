/** Paths of operations with variable parts, such as `{appId}`: matched letter for letter, filled percent-encoded. */

/** Matches the raw path of a request; its groups are the variable parts, still percent-encoded and not judged. */
export function pathPattern(template: string): RegExp {
  return new RegExp(`^${template.replace(/\{(\w+)\}/g, '(?<$1>[^/]*)')}$`);
}

/** Throws RangeError for a part that is missing or that no path can carry (empty, `.`, `..`). */
export function fillPath(template: string, parts: Readonly<Record<string, string | undefined>>): string {
  return template.replace(/\{(\w+)\}/g, (_, part: string) => {
    const value = parts[part];
    if (value === undefined || value === '' || value === '.' || value === '..' || !value.isWellFormed()) {
      throw new RangeError(
        `${part} ${JSON.stringify(value)} cannot be part of a path; give a non-empty id other than . and ..`,
      );
    }
    return encodeURIComponent(value);
  });
}
