// The types of the messages that a server sends.
const code = (type: string): number => type.charCodeAt(0);
export const [PARSED, BOUND, CLOSED] = [code("1"), code("2"), code("3")];
export const [PARAMETERS, ROW_DESCRIPTION, NO_DATA, ROW] = [code("t"), code("T"), code("n"), code("D")];
export const [COMPLETE, EMPTY, SUSPENDED, ERROR, READY] = [
  code("C"),
  code("I"),
  code("s"),
  code("E"),
  code("Z"),
];
export const [COPY_IN, COPY_OUT, COPY_BOTH] = [code("G"), code("H"), code("W")];
export const [COPY_DATA, NOTICE, NOTIFICATION, CALLED] = [code("d"), code("N"), code("A"), code("V")];
export const PARAMETER = code("S");
