/** A small strict reader of XML with namespaces: what WebDAV clients send, and nothing that expands or nests without end. */
import { DoorError } from '../door.ts';

export interface XmlElement {
  readonly namespace: string;
  readonly name: string;
  readonly attributes: readonly XmlAttribute[];
  readonly children: readonly (XmlElement | string)[];
}

interface XmlAttribute {
  readonly namespace: string;
  readonly name: string;
  readonly value: string;
}

type Scope = ReadonlyMap<string, string>;

const LEVELS_MAX = 32;
/** Limits a request, because its answer repeats names and namespaces. */
const ELEMENTS_MAX = 10_000;
const NAME = '[\\p{L}_][\\p{L}\\p{N}_.\\u00b7-]*';
const QUALIFIED = `(?:${NAME}:)?${NAME}`;
const SPACE = /\s+/uy;
const DECLARATION = /<\?xml\s[^>]*?\?>/uy;
const OPENING = new RegExp(`<(${QUALIFIED})`, 'uy');
const ATTRIBUTE = new RegExp(`\\s+(${QUALIFIED})\\s*=\\s*(?:"([^"<]*)"|'([^'<]*)')`, 'uy');
const OPENING_END = /\s*(\/?)>/uy;
const CLOSING = new RegExp(`</(${QUALIFIED})\\s*>`, 'uy');
const TEXT = /[^<]+/uy;
const CDATA = /<!\[CDATA\[(.*?)\]\]>/suy;
const COMMENT = /<!--(.*?)-->|<\?(?!xml[\s?]).*?\?>/suy;
const NO_CHARACTER = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;
const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };
const XML_NAMESPACE = 'http://www.w3.org/XML/1998/namespace';

/** The root. Throws DoorError 400. */
export function parseXml(bytes: Uint8Array): XmlElement {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw noXml();
  }
  if (NO_CHARACTER.test(text)) throw noXml();
  return new Reader(text).readDocument();
}

class Reader {
  readonly #text: string;
  #at = 0;
  #elements = 0;

  constructor(text: string) {
    this.#text = text;
  }

  readDocument(): XmlElement {
    this.#take(DECLARATION);
    this.#passOver();
    const root = this.#readElement(new Map([['xml', XML_NAMESPACE]]), 1);
    this.#passOver();
    if (this.#at !== this.#text.length) throw noXml();
    return root;
  }

  #passOver(): void {
    while (this.#take(SPACE) !== null || this.#takeComment());
  }

  #takeComment(): boolean {
    const match = this.#take(COMMENT);
    if (match?.[1]?.includes('--')) throw noXml();
    return match !== null;
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (match !== null) this.#at = pattern.lastIndex;
    return match;
  }

  #readElement(above: Scope, level: number): XmlElement {
    const tag = this.#take(OPENING)?.[1];
    this.#elements += 1;
    if (tag === undefined || level > LEVELS_MAX || this.#elements > ELEMENTS_MAX) throw noXml();
    const raw = new Map<string, string>();
    for (let match = this.#take(ATTRIBUTE); match !== null; match = this.#take(ATTRIBUTE)) {
      const [, name = '', double, single = ''] = match;
      if (raw.has(name)) throw noXml();
      raw.set(name, decodeEntities(double ?? single));
    }
    const scope = declare(above, raw);
    const attributes = [...raw]
      .filter(([name]) => !/^xmlns(?::|$)/.test(name))
      .map(([name, value]) => ({ ...qualify(scope, name, ''), value }));
    const end = this.#take(OPENING_END);
    if (end === null) throw noXml();
    const children = end[1] === '/' ? [] : this.#readChildren(tag, scope, level);
    return { ...qualify(scope, tag, scope.get('') ?? ''), attributes, children };
  }

  #readChildren(tag: string, scope: Scope, level: number): (XmlElement | string)[] {
    const children: (XmlElement | string)[] = [];
    for (;;) {
      const closing = this.#take(CLOSING);
      if (closing?.[1] === tag) return children;
      if (closing !== null) throw noXml();
      const text = this.#take(TEXT);
      if (text?.[0].includes(']]>')) throw noXml();
      if (text !== null) children.push(decodeEntities(text[0]));
      else if (!this.#takeComment()) {
        const data = this.#take(CDATA);
        children.push(data === null ? this.#readElement(scope, level + 1) : (data[1] ?? ''));
      }
    }
  }
}

function declare(above: Scope, attributes: ReadonlyMap<string, string>): Scope {
  const scope = new Map(above);
  for (const [name, value] of attributes) {
    if (name.startsWith('xmlns') && value.length > 1_024) throw noXml();
    if (name === 'xmlns') scope.set('', value);
    else if (name.startsWith('xmlns:')) {
      if (value === '') throw noXml();
      scope.set(name.slice('xmlns:'.length), value);
    }
  }
  return scope;
}

function qualify(scope: Scope, tag: string, plain: string): { namespace: string; name: string } {
  const [prefix = '', name] = tag.split(':');
  if (name === undefined) return { namespace: plain, name: tag };
  const namespace = scope.get(prefix);
  if (namespace === undefined) throw noXml();
  return { namespace, name };
}

function decodeEntities(text: string): string {
  return text.replace(/&([^;&]*);|&/g, (_, name: string | undefined) => {
    const [, hex, decimal] = /^#(?:x([0-9a-fA-F]{1,6})|(\d{1,7}))$/.exec(name ?? '') ?? [];
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
    const character =
      code <= 0x10ffff
        ? String.fromCodePoint(code)
        : Object.hasOwn(ENTITIES, name ?? '') && ENTITIES[name ?? ''];
    if (!character || NO_CHARACTER.test(character)) throw noXml();
    return character;
  });
}

function noXml(): DoorError {
  return new DoorError(
    400,
    `the body is no XML that is read here: no DOCTYPE, at most ${LEVELS_MAX} levels and ${ELEMENTS_MAX} elements, declared namespaces`,
  );
}

/** An answer that names what the request lacks in WebDAV's own words. `inner` is XML. */
export function refusePrecondition(status: number, condition: string, inner = ''): DoorError {
  return new DoorError(
    status,
    `<?xml version="1.0" encoding="utf-8"?><D:error xmlns:D="DAV:"><D:${condition}>${inner}</D:${condition}></D:error>`,
    { 'content-type': 'application/xml; charset=utf-8' },
  );
}

export function childrenOf({ children }: XmlElement): readonly XmlElement[] {
  return children.filter((child) => typeof child !== 'string');
}

export function findChild(element: XmlElement, name: string): XmlElement | undefined {
  return childrenOf(element).find((child) => isDav(child, name));
}

export function isDav(element: XmlElement, name: string): boolean {
  return element.namespace === 'DAV:' && element.name === name;
}

export function textOf({ children }: XmlElement): string {
  return children.map((child) => (typeof child === 'string' ? child : textOf(child))).join('');
}

/** The outermost element says its namespace, so that the text can stand anywhere. */
export function formatXml({ namespace, name, attributes, children }: XmlElement, above?: string): string {
  const said = attributes.map((attribute, index) => {
    const isXml = attribute.namespace === XML_NAMESPACE;
    const prefix = isXml ? 'xml:' : attribute.namespace === '' ? '' : `a${index}:`;
    const declared = prefix === '' || isXml ? '' : ` xmlns:a${index}="${escapeXml(attribute.namespace)}"`;
    return `${declared} ${prefix}${attribute.name}="${escapeXml(attribute.value)}"`;
  });
  const content = children.map((child) =>
    typeof child === 'string' ? escapeXml(child) : formatXml(child, namespace),
  );
  const declared = namespace === above ? '' : ` xmlns="${escapeXml(namespace)}"`;
  return `<${name}${declared}${said.join('')}>${content.join('')}</${name}>`;
}

/** What XML cannot hold becomes U+FFFD. */
export function escapeXml(text: string): string {
  return text
    .replace(/[&<>"'\r]/g, (character) => `&#${character.charCodeAt(0)};`)
    .replace(new RegExp(NO_CHARACTER, 'gu'), '\ufffd');
}
