/** One node: what it says of itself, what it refers to, what keeps it, and its bytes. */
import type { NodeDescription } from '@holdfast/protocol';
import { HashText } from '../parts/command.tsx';
import {
  formatBytes,
  formatCount,
  formatDistance,
  formatInstant,
  formatThings,
  printable,
} from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Empty, Notice, Shown } from '../parts/notices.tsx';
import { hrefTo, route } from '../route.ts';
import { Around } from './around.tsx';
import type { Connection } from './connection.ts';
import { describeType, isTreeRoot } from './content-type.ts';
import { Preview } from './preview.tsx';
import { SpaceCommand } from './space-command.tsx';
import { nodeHref, treeHref } from './tree-address.ts';

export function NodeView({ space }: { readonly space: Connection }) {
  const [, , hash = ''] = route.value.segments;
  const loaded = useLoaded(hash, (signal) => space.client.readMetadata(hash, { signal }));
  if (!/^[0-9a-f]{64}$/.test(hash)) {
    return (
      <>
        <h1>Node</h1>
        <Empty title="No node is named in the address">
          <p>
            A hash has 64 hexadecimal digits. The <a href={hrefTo('space')}>snapshots</a> name some.
          </p>
        </Empty>
      </>
    );
  }
  return (
    <>
      <h1>
        Node <HashText hash={hash} digits={16} />
      </h1>
      <Shown loaded={loaded} what="the node">
        {(description) => <Described key={hash} space={space} description={description} />}
      </Shown>
    </>
  );
}

function Described({
  space,
  description,
}: {
  readonly space: Connection;
  readonly description: NodeDescription & { readonly rottenNodes?: number };
}) {
  const { metadata } = description;
  const { hash, contentType, size, refs } = metadata;
  return (
    <>
      {description.rottenNodes === undefined ? null : (
        <Notice kind="warn">
          <p>
            The server knows of {formatThings(description.rottenNodes, 'damaged node')} in this Space. Push
            the tree again with <code>holdfast push --check</code> to heal it.
          </p>
        </Notice>
      )}
      <Facts description={description} />
      {isTreeRoot(contentType) ? (
        <p>
          <a class="button" href={treeHref(hash)}>
            Open as a tree
          </a>
        </p>
      ) : null}
      <section class="panel" aria-label="Content">
        <h2>Content</h2>
        <Preview
          contentKey={hash}
          bytes={size}
          read={async (start, end, signal) => {
            const range = { first: start, last: end - 1 };
            const { body } = await space.client.readContent(hash, { range, signal });
            return new Uint8Array(
              await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer(),
            );
          }}
        />
        <p class="soft">
          Bytes of a range are not verified against the hash; a download of a file of a tree is.
        </p>
      </section>
      <Around space={space} hash={hash} />
      <Refs refs={refs} />
      <section class="panel" aria-label="On the command line">
        <h2>On the command line</h2>
        <SpaceCommand space={space} line={`holdfast node get ${hash}`} />
      </section>
    </>
  );
}

function Facts({ description: { metadata, state } }: { readonly description: NodeDescription }) {
  const now = Date.now();
  const lease =
    state.leaseExpiresAt <= now
      ? `ended ${formatInstant(state.leaseExpiresAt)}`
      : `until ${formatInstant(state.leaseExpiresAt)} (${formatDistance(state.leaseExpiresAt, now)})`;
  const rows: readonly (readonly [string, string])[] = [
    ['Is a', describeType(metadata.contentType)],
    ['Content type', printable(metadata.contentType)],
    ['Size', `${formatBytes(metadata.size)} (${formatCount(metadata.size)} bytes)`],
    ['Refers to', formatThings(metadata.refs.length, 'node')],
    ['Leased', lease],
    ['Referred to by', formatThings(state.childRefCount, 'ref of parents', 'refs of parents')],
    ['Root refs', `${state.rootRefCount} over all domains`],
  ];
  return (
    <dl class="facts">
      {rows.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>
            <bdi>{value}</bdi>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Refs({ refs }: { readonly refs: readonly string[] }) {
  if (refs.length === 0) return null;
  return (
    <details class="panel">
      <summary>All {formatThings(refs.length, 'ref')}, in their order</summary>
      <ol class="rows">
        {refs.map((ref, index) => (
          <li key={index}>
            <HashText hash={ref} href={nodeHref(ref)} digits={24} />
          </li>
        ))}
      </ol>
    </details>
  );
}
