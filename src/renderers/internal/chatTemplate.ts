/** The Jinja source that renders what the `chatml` renderer renders, for programs that only know templates. */

/** @category constants */
export const chatTemplate =
  "{%- for message in messages %}" +
  "{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}" +
  "{%- endfor %}" +
  "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
