/**
 * Parses the part of XML that S3 uses: elements and text; attributes are skipped. It is strict and bounded: document types, own
 * entities, processing instructions after the first, comments and CDATA are errors.
 */

export interface XmlElement {
  readonly name: string;
  /** text outside child elements, references resolved */
  readonly text: string;
  readonly children: readonly XmlElement[];
}

export class XmlInvalid extends Error {
  override readonly name = 'XmlInvalid';
}

const DEPTH_MAX = 8;
/** enough for 1000 keys with a dozen elements each */
const ELEMENTS_MAX = 32_768;

const DECLARATION = /^\uFEFF?\s*<\?xml[^<>?]{0,200}\?>/;
const OPEN_TAG =
  /<([A-Za-z_][A-Za-z0-9_.:-]{0,63})((?:\s+[A-Za-z_][A-Za-z0-9_.:-]{0,63}\s*=\s*(?:"[^"<]{0,512}"|'[^'<]{0,512}')){0,8})\s*(\/?)>/y;
const CLOSE_TAG = /<\/([A-Za-z_][A-Za-z0-9_.:-]{0,63})\s*>/y;
const REFERENCE = /&(?:#x([0-9a-fA-F]{1,6})|#([0-9]{1,7})|(lt|gt|amp|quot|apos));|&/g;
const NAMED: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };
const CODE_POINT_MAX = 0x10ffff;

interface OpenElement {
  readonly name: string;
  text: string;
  readonly children: XmlElement[];
}

/** Throws XmlInvalid. */
export function parseXml(source: string): XmlElement {
  const document: OpenElement = { name: '', text: '', children: [] };
  const open: OpenElement[] = [document];
  let position = DECLARATION.exec(source)?.[0].length ?? 0;
  let elements = 0;
  while (position < source.length) {
    const tagAt = source.indexOf('<', position);
    const textEnd = tagAt === -1 ? source.length : tagAt;
    const top = open.at(-1) as OpenElement;
    if (textEnd > position) top.text += resolve(source.slice(position, textEnd));
    if (tagAt === -1) break;
    const closing = matchAt(CLOSE_TAG, source, tagAt);
    const opening = closing === undefined ? matchAt(OPEN_TAG, source, tagAt) : undefined;
    if (closing !== undefined) {
      if (open.length === 1 || closing[1] !== top.name) throw new XmlInvalid('an end tag without its start');
      open.pop();
    } else if (opening !== undefined) {
      elements += 1;
      if (elements > ELEMENTS_MAX) throw new XmlInvalid(`more than ${ELEMENTS_MAX} elements`);
      const element: OpenElement = { name: opening[1] as string, text: '', children: [] };
      top.children.push(element);
      if (opening[3] === '') open.push(element);
      if (open.length > DEPTH_MAX + 1) throw new XmlInvalid(`elements deeper than ${DEPTH_MAX}`);
    } else {
      throw new XmlInvalid('markup other than elements and text');
    }
    position = tagAt + (closing ?? opening ?? [''])[0].length;
  }
  const [root] = document.children;
  const isWhole = open.length === 1 && document.children.length === 1 && document.text.trim() === '';
  if (root === undefined || !isWhole) throw new XmlInvalid('not one whole document');
  return root;
}

/** The text of the only child of that name; undefined if there is none. Throws XmlInvalid if there are several. */
export function findText(element: XmlElement, name: string): string | undefined {
  const found = element.children.filter((child) => child.name === name);
  if (found.length > 1) throw new XmlInvalid(`more than one ${name}`);
  const [only] = found;
  if (only !== undefined && only.children.length > 0) throw new XmlInvalid(`${name} is no text`);
  return only?.text;
}

function matchAt(pattern: RegExp, source: string, position: number): RegExpExecArray | undefined {
  pattern.lastIndex = position;
  return pattern.exec(source) ?? undefined;
}

function resolve(text: string): string {
  if (text.includes(']]>')) throw new XmlInvalid('the end of a CDATA section in text');
  if (!text.includes('&')) return text;
  return text.replace(REFERENCE, (_whole, hex?: string, decimal?: string, name?: string) => {
    if (name !== undefined) return NAMED[name] as string;
    const digits = hex ?? decimal;
    const code = digits === undefined ? Number.NaN : Number.parseInt(digits, hex === undefined ? 10 : 16);
    const isCharacter = code > 0 && code <= CODE_POINT_MAX && !(code >= 0xd800 && code <= 0xdfff);
    if (!isCharacter) throw new XmlInvalid('a reference to no character');
    return String.fromCodePoint(code);
  });
}
