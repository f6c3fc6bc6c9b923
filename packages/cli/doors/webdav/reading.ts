/** GET and HEAD: files, whole or in part, and pages for browsers. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { sendFile } from '../sent-file.ts';
import { type Call, getFound, modifiedOf } from './call.ts';
import type { Found } from './name-store.ts';
import { formatPlace } from './places.ts';
import { escapeXml } from './xml.ts';

const SAFE = { 'x-content-type-options': 'nosniff' };
/** A page in a sandbox could download nothing. */
const PAGE_POLICY = {
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};

export async function read(call: Call): Promise<void> {
  const { store, request, response, place } = call;
  const found = await getFound(call, place);
  const { item } = found;
  if (item.kind === 'directory') return showPage(call, found);
  const headers = { 'last-modified': modifiedOf(found) };
  await sendFile({ request, response }, { tree: store.tree, item, headers });
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
  const isFolder = item.kind === 'directory';
  const name = escapeXml(`${parts.at(-1)}${isFolder ? '/' : ''}`);
  return `<li><a href="${escapeXml(formatPlace(parts, isFolder))}">${name}</a></li>`;
}

function sendPage(response: ServerResponse, { method }: IncomingMessage, page: string): void {
  response.writeHead(200, { ...SAFE, ...PAGE_POLICY, 'content-type': 'text/html; charset=utf-8' });
  response.end(method === 'HEAD' ? undefined : page);
}
