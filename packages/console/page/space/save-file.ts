/** Hands bytes that the page has put together to the browser, as a download. */

export function saveFile(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name.replaceAll(/[\\/:]/g, '_');
  link.click();
  // The browser may read it for a while.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
