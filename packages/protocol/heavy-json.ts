/** Texts of JSON that would fill the memory of a reader: another program at an address may send anything. */

const LEVELS_MAX = 32;
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [ARRAY, ARRAY_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Whether the text has more arrays and objects than `partsMax`, or more than 32 levels: each takes up to ninety times its text. Pure. */
export function isHeavyJson(text: string, partsMax: number): boolean {
  let parts = 0;
  let levels = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at += 1) {
    const mark = text.charCodeAt(at);
    if (mark === QUOTE) isInString = !isInString;
    else if (isInString) at += mark === BACKSLASH ? 1 : 0;
    else if (mark === ARRAY_END || mark === OBJECT_END) levels -= 1;
    else if (mark === ARRAY || mark === OBJECT) {
      levels += 1;
      parts += 1;
      if (levels > LEVELS_MAX || parts > partsMax) return true;
    }
  }
  return false;
}
