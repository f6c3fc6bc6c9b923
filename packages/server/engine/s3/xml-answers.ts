/** The store's XML answers as plain data, and the one XML we send. The runtime parses; here each answer has a closed shape. */

/** An element with children: its text, or those of each name; attributes begin with `@`. */
type XmlElement = Readonly<Record<string, unknown>>;

export class XmlInvalid extends Error {
  override readonly name = 'XmlInvalid';
}

interface KeyPage {
  readonly keys: readonly string[];
  /** the token of the next page; undefined: this was the last page */
  readonly next: string | undefined;
}

interface BatchOutcome {
  readonly deleted: readonly string[];
  readonly failed: readonly { readonly key: string; readonly code: string }[];
}

/** The code of an error; undefined if the answer is not S3's, such as the page of a proxy. */
export function parseErrorCode(text: string): string | undefined {
  if (text === '') return undefined;
  try {
    const code = findText(parseRoot(text, 'Error'), 'Code');
    return code !== undefined && /^[A-Za-z0-9.]{1,64}$/.test(code) ? code : undefined;
  } catch (error) {
    if (error instanceof XmlInvalid) return undefined;
    throw error;
  }
}

/** Parses ListObjectsV2 with encoding-type=url: keys are percent-encoded. Throws XmlInvalid. */
export function parseKeyPage(text: string): KeyPage {
  const root = parseRoot(text, 'ListBucketResult');
  const truncated = findText(root, 'IsTruncated');
  if (truncated !== 'true' && truncated !== 'false') throw new XmlInvalid('no IsTruncated');
  const next = findText(root, 'NextContinuationToken');
  if (truncated === 'true' && (next === undefined || next === '')) {
    throw new XmlInvalid('more keys, but no NextContinuationToken');
  }
  const keys = findElements(root, 'Contents').map((content) => decodeKey(requireText(content, 'Key')));
  return { keys, next: truncated === 'true' ? next : undefined };
}

/** Parses the answer of DeleteObjects. Throws XmlInvalid. */
export function parseBatchOutcome(text: string): BatchOutcome {
  const root = parseRoot(text, 'DeleteResult');
  const deleted = findElements(root, 'Deleted').map((element) => requireText(element, 'Key'));
  const failed = findElements(root, 'Error').map((element) => ({
    key: requireText(element, 'Key'),
    code: requireText(element, 'Code'),
  }));
  return { deleted, failed };
}

/** Our keys consist of letters, digits, `.`, `_`, `-` and `/`, so they need no escapes. */
export function formatDeleteBatch(keys: readonly string[]): string {
  const objects = keys.map((key) => `<Object><Key>${key}</Key></Object>`).join('');
  return `<?xml version="1.0" encoding="UTF-8"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>false</Quiet>${objects}</Delete>`;
}

/** Refuses a document type first: it could declare entities that expand without end. Throws XmlInvalid. */
function parseRoot(text: string, name: string): XmlElement {
  if (/<!DOCTYPE/i.test(text)) throw new XmlInvalid('a document type');
  let document: unknown;
  try {
    document = Bun.XML.parse(text);
  } catch {
    throw new XmlInvalid('not one whole document');
  }
  const root = isElement(document) ? document[name] : undefined;
  if (root === '') return {};
  if (!isElement(root)) throw new XmlInvalid(`no element ${name}`);
  return root;
}

function isElement(value: unknown): value is XmlElement {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** All children of that name. Throws XmlInvalid if one of them is text. */
function findElements(parent: XmlElement, name: string): XmlElement[] {
  const found = [parent[name] ?? []].flat();
  if (!found.every(isElement)) throw new XmlInvalid(`${name} without children`);
  return found;
}

/** The text of the only child of that name; undefined if there is none. Throws XmlInvalid if there are several. */
function findText(parent: XmlElement, name: string): string | undefined {
  const text = parent[name];
  if (text !== undefined && typeof text !== 'string') throw new XmlInvalid(`${name} is not one text`);
  return text;
}

function requireText(element: XmlElement, name: string): string {
  const text = findText(element, name);
  if (text === undefined) throw new XmlInvalid(`an element without ${name}`);
  return text;
}

/** A key that cannot be decoded is not ours, and is returned unchanged. */
function decodeKey(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text;
  }
}
