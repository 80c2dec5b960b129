// Two translations side by side: the words that only one of them has.

const words = (text) => text.match(/\s+|[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) ?? [];

/** For each text its words as [word, isCommon], by the longest common subsequence. */
export function compare(left, right) {
  const [a, b] = [words(left), words(right)];
  const length = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i][j] = a[i] === b[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  const out = [[], []];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out[0].push([a[i++], true]);
      out[1].push([b[j++], true]);
    } else if (j === b.length || (i < a.length && length[i + 1][j] >= length[i][j + 1])) {
      out[0].push([a[i], !a[i++].trim()]);
    } else {
      out[1].push([b[j], !b[j++].trim()]);
    }
  }
  return out;
}
