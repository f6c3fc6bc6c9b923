/**
 * Content of others on this page. Text is shown from memory in a frame of its own, as plain text whatever it says it is. The frame is
 * sandboxed: no scripts, no forms, not this page's origin. An image is a raster image by its first bytes, and shown as one.
 */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { formatBytes } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Empty, Notice, Shown } from '../parts/notices.tsx';

/** Only raster images: what is text, SVG and HTML among it, is shown as text. */
type PreviewKind =
  | { readonly type: 'text' | 'binary' }
  | { readonly type: 'image'; readonly mediaType: string };

const MAGIC: readonly (readonly [mediaType: string, offset: number, bytes: readonly number[]])[] = [
  ['image/png', 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', 0, [0xff, 0xd8, 0xff]],
  ['image/gif', 0, [0x47, 0x49, 0x46, 0x38]],
  ['image/bmp', 0, [0x42, 0x4d]],
  ['image/webp', 8, [0x57, 0x45, 0x42, 0x50]],
  ['image/avif', 4, [0x66, 0x74, 0x79, 0x70, 0x61, 0x76, 0x69, 0x66]],
];

/** By the first bytes of the content. */
export function findPreviewKind(bytes: Uint8Array): PreviewKind {
  const image = MAGIC.find(([, offset, magic]) => magic.every((byte, at) => bytes[offset + at] === byte));
  const isText = looksLikeText(bytes);
  // `BM` begins many a text.
  if (image !== undefined && !(image[0] === 'image/bmp' && isText))
    return { type: 'image', mediaType: image[0] };
  return { type: isText ? 'text' : 'binary' };
}

function looksLikeText(bytes: Uint8Array): boolean {
  let controls = 0;
  for (const byte of bytes) {
    if (byte === 0) return false;
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d && byte !== 0x1b && byte !== 0x0c)
      controls += 1;
  }
  return controls <= bytes.length * 0.02 && isUtf8(bytes);
}

function isUtf8(bytes: Uint8Array): boolean {
  // A character may be cut at the end of a part.
  for (let cut = 0; cut <= Math.min(3, bytes.length); cut += 1) {
    try {
      new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, bytes.length - cut));
      return true;
    } catch {
      // Perhaps only the last character is cut.
    }
  }
  return false;
}

const LINE_BYTES = 16;

/** As `hexdump -C` shows it. */
export function formatHex(bytes: Uint8Array, start: number): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += LINE_BYTES) {
    const part = bytes.subarray(at, at + LINE_BYTES);
    const hex = Array.from(part, (byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = Array.from(part, (byte) =>
      byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.',
    ).join('');
    lines.push(`${(start + at).toString(16).padStart(8, '0')}  ${hex.padEnd(LINE_BYTES * 3)} ${text}`);
  }
  return lines.join('\n');
}

const IMAGE_BYTES_MAX = 16 * 1024 * 1024;

/** Bytes `start` up to but not including `end`. */
type ReadBytes = (start: number, end: number, signal: AbortSignal) => Promise<Uint8Array>;

interface PreviewProps {
  /** what is shown, such as the hash: another key is another content */
  readonly contentKey: string;
  readonly bytes: number;
  readonly read: ReadBytes;
}

interface Part {
  readonly kind: PreviewKind;
  readonly start: number;
  readonly end: number;
  readonly content: Uint8Array;
}

export function Preview({ contentKey, bytes, read }: PreviewProps) {
  const [start, setStart] = useState(0);
  const loaded = useLoaded(`${contentKey} ${start}`, (signal) => readPart(bytes, start, read, signal));
  if (bytes === 0) return <Empty title="Empty: there are no bytes to show" />;
  return (
    <section class="preview" aria-label="Preview">
      <Shown loaded={loaded} what="the preview">
        {(part) => <ShownPart part={part} bytes={bytes} onPart={setStart} />}
      </Shown>
    </section>
  );
}

async function readPart(bytes: number, start: number, read: ReadBytes, signal: AbortSignal): Promise<Part> {
  const first = await read(0, Math.min(bytes, 4096), signal);
  const kind = findPreviewKind(first);
  const wanted =
    kind.type === 'image'
      ? bytes > IMAGE_BYTES_MAX
        ? 0
        : bytes
      : kind.type === 'text'
        ? 256 * 1024
        : 4 * 1024;
  const end = Math.min(bytes, start + wanted);
  return { kind, start, end, content: wanted === 0 ? new Uint8Array(0) : await read(start, end, signal) };
}

function ShownPart({
  part,
  bytes,
  onPart,
}: {
  readonly part: Part;
  readonly bytes: number;
  readonly onPart: (start: number) => void;
}) {
  const { kind, start, end, content } = part;
  if (kind.type === 'image' && content.length === 0) {
    return (
      <Notice>
        <p>
          An image of {formatBytes(bytes)}: previews end at {formatBytes(IMAGE_BYTES_MAX)}. Download it to see
          it.
        </p>
      </Notice>
    );
  }
  const isWhole = start === 0 && end === bytes;
  return (
    <>
      {kind.type === 'binary' ? <p class="soft">No text and no image: its bytes, in hexadecimal.</p> : null}
      <ShownContent kind={kind} content={content} start={start} />
      {isWhole ? null : (
        <div class="parts">
          <button
            type="button"
            disabled={start === 0}
            onClick={() => onPart(Math.max(0, start - (end - start)))}
          >
            Earlier
          </button>
          <button type="button" disabled={end === bytes} onClick={() => onPart(end)}>
            Later
          </button>
          <span class="soft" role="status">
            Bytes {start} to {end} of {bytes}
          </span>
        </div>
      )}
    </>
  );
}

interface ContentProps {
  readonly kind: PreviewKind;
  readonly content: Uint8Array;
  readonly start: number;
}

/** Without scrolling, as far as there is room. */
const FRAME_LINES_MAX = 30;
const FRAME_LINE_PX = 18;
const FRAME_PADDING_PX = 40;

function ShownContent({ kind, content, start }: ContentProps) {
  const text = useMemo(
    () =>
      kind.type === 'image'
        ? ''
        : kind.type === 'text'
          ? new TextDecoder().decode(content)
          : formatHex(content, start),
    [kind, content, start],
  );
  const [url, setUrl] = useState<string | undefined>(undefined);
  useEffect(() => {
    const made = URL.createObjectURL(makeBlob(kind, content, text));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [kind, content, text]);
  if (kind.type === 'image')
    return <div class="picture">{url === undefined ? null : <img src={url} alt="Preview" />}</div>;
  const height = `${Math.min(FRAME_LINES_MAX, countLines(text)) * FRAME_LINE_PX + FRAME_PADDING_PX}px`;
  if (url === undefined) return <div class="frame" style={{ height }} />;
  // A new element for each content, so that the frame leaves nothing in the history.
  return (
    <iframe key={url} class="frame" sandbox="" src={url} title="The content as text" style={{ height }} />
  );
}

function countLines(text: string): number {
  let lines = 0;
  for (const line of text.split('\n', FRAME_LINES_MAX)) lines += Math.max(1, Math.ceil(line.length / 110));
  return lines;
}

function makeBlob(kind: PreviewKind, content: Uint8Array, text: string): Blob {
  if (kind.type === 'image') return new Blob([content as Uint8Array<ArrayBuffer>], { type: kind.mediaType });
  return new Blob([text], { type: 'text/plain;charset=utf-8' });
}
