/** Answers as the API gives them. */

export function json(value: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  });
}

export function failure(status: number, error: string, headers: Record<string, string> = {}): Response {
  return json({ error, message: `planted ${error}` }, status, headers);
}
