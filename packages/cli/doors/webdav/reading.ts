/** GET and HEAD: files, whole or in part, and pages for browsers. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { DoorError } from '../door.ts';
import { type Call, getFound, listTags, modifiedOf, tagOf } from './call.ts';
import { type Found, judge } from './name-store.ts';
import { escapeXml } from './xml.ts';

const SAFE = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
};

export async function read(call: Call): Promise<void> {
  const { store, request, response, place } = call;
  const found = await getFound(call, place);
  const { item } = found;
  if (item.kind === 'directory') return showPage(call, found);
  const tag = tagOf(item.hash);
  const modified = modifiedOf(found);
  const headers = {
    ...SAFE,
    etag: tag,
    'last-modified': modified,
    'accept-ranges': 'bytes',
    'content-type': 'application/octet-stream',
  };
  const fits = (name: 'if-match' | 'if-none-match') =>
    listTags(request.headers[name])?.some((each) => each === '*' || each === tag);
  judge(fits('if-match') !== false);
  if (fits('if-none-match')) return void response.writeHead(304, headers).end();
  const wanted = request.headers['if-range'];
  const isSame = wanted === undefined || wanted === tag || wanted === modified;
  const range = isSame ? parseRange(request.headers.range, item.bytes) : undefined;
  const length = range === undefined ? item.bytes : range.end - range.start;
  const rangeHeaders =
    range === undefined ? {} : { 'content-range': `bytes ${range.start}-${range.end - 1}/${item.bytes}` };
  response.writeHead(range === undefined ? 200 : 206, {
    ...headers,
    ...rangeHeaders,
    'content-length': length,
  });
  if (request.method === 'HEAD') return void response.end();
  await pipeline(Readable.from(store.tree.readFile(item, { range })), response);
}

/** One range; what is none is passed over. Throws DoorError 416. */
function parseRange(header: string | undefined, bytes: number): { start: number; end: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(header ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  const start = first === '' ? Math.max(0, bytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? bytes : Math.min(bytes, Number(last) + 1);
  if (start < end) return { start, end };
  throw new DoorError(416, 'the range is not in the file', { 'content-range': `bytes */${bytes}` });
}

async function showPage(call: Call, folder: Found): Promise<void> {
  const links: string[] = [];
  let leftOut = 0;
  for await (const found of call.store.list(folder)) {
    if (found === undefined) leftOut += 1;
    else links.push(linkTo(found));
  }
  call.store.tellLeftOut(folder, leftOut);
  const left = leftOut === 0 ? '' : `<p>${leftOut} left out: links, and names that cannot be shown</p>`;
  const title = escapeXml(folder.parts.join('/') || 'Holdfast');
  sendPage(
    call.response,
    call.request,
    `<!doctype html><meta charset="utf-8"><title>${title}</title><h1>${title}</h1><ul>${links.join('')}</ul>${left}`,
  );
}

function linkTo({ parts, item }: Found): string {
  const name = parts.at(-1) ?? '';
  const slash = item.kind === 'directory' ? '/' : '';
  return `<li><a href="./${escapeXml(encodeURIComponent(name))}${slash}">${escapeXml(name)}${slash}</a></li>`;
}

function sendPage(response: ServerResponse, { method }: IncomingMessage, page: string): void {
  response.writeHead(200, { ...SAFE, 'content-type': 'text/html; charset=utf-8' });
  response.end(method === 'HEAD' ? undefined : page);
}
