/** The store's XML answers as plain data, and the one XML we send. */
import { findText, parseXml, type XmlElement, XmlInvalid } from './xml.ts';

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
    const root = parseXml(text);
    const code = root.name === 'Error' ? findText(root, 'Code') : undefined;
    return code !== undefined && /^[A-Za-z0-9.]{1,64}$/.test(code) ? code : undefined;
  } catch (error) {
    if (error instanceof XmlInvalid) return undefined;
    throw error;
  }
}

/**
 * Parses ListObjectsV2 with encoding-type=url: keys are percent-encoded, so the parser never sees their bytes. Throws
 * XmlInvalid.
 */
export function parseKeyPage(text: string): KeyPage {
  const root = parseRoot(text, 'ListBucketResult');
  const truncated = findText(root, 'IsTruncated');
  if (truncated !== 'true' && truncated !== 'false') throw new XmlInvalid('no IsTruncated');
  const next = findText(root, 'NextContinuationToken');
  if (truncated === 'true' && (next === undefined || next === '')) {
    throw new XmlInvalid('more keys, but no NextContinuationToken');
  }
  const contents = root.children.filter((child) => child.name === 'Contents');
  const keys = contents.map((content) => decodeKey(requireText(content, 'Key')));
  return { keys, next: truncated === 'true' ? next : undefined };
}

/** Parses the answer of DeleteObjects. Throws XmlInvalid. */
export function parseBatchOutcome(text: string): BatchOutcome {
  const root = parseRoot(text, 'DeleteResult');
  const deleted: string[] = [];
  const failed: { key: string; code: string }[] = [];
  for (const child of root.children) {
    if (child.name === 'Deleted') deleted.push(requireText(child, 'Key'));
    if (child.name === 'Error') {
      failed.push({ key: requireText(child, 'Key'), code: requireText(child, 'Code') });
    }
  }
  return { deleted, failed };
}

/** Our keys consist of letters, digits, `.`, `_`, `-` and `/`, so they need no escapes. */
export function formatDeleteBatch(keys: readonly string[]): string {
  const objects = keys.map((key) => `<Object><Key>${key}</Key></Object>`).join('');
  return `<?xml version="1.0" encoding="UTF-8"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>false</Quiet>${objects}</Delete>`;
}

function parseRoot(text: string, name: string): XmlElement {
  const root = parseXml(text);
  if (root.name !== name) throw new XmlInvalid(`${root.name} where ${name} was due`);
  return root;
}

function requireText(element: XmlElement, name: string): string {
  const text = findText(element, name);
  if (text === undefined) throw new XmlInvalid(`${element.name} without ${name}`);
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
