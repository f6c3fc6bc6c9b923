/** Text of others for people: what would turn a line around, or be invisible, is spelt out. */

const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is being spelt out
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** One line; the same as `formatName` of the SDK does for names. */
export function printable(text: string): string {
  return text.replace(UNSAFE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
