/** The least a Bun server can do: one JSON answer, whatever is asked. Runs as a process of its own. */

export function serveBareAnswer(body: string): void {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => new Response(body, { headers: { 'content-type': 'application/json' } }),
  });
  console.log(`listening on ${server.port}`);
}
